//! Words that decide about the full stop after them or before them: English, German, French, Spanish, and the most
//! frequent ones of some others. All lists are in small letters, abbreviations without their last full stop.

/// Abbreviations that lead on to something: no sentence ends with them.
#[rustfmt::skip]
const NEVER_END: &[&str] = &[
    "e.g", "i.e", "eg", "ie", "vs", "cf", "viz", "approx", "incl", "excl", "esp", "resp", "a.k.a",
    "z.b", "d.h", "u.a", "u.u", "i.d.r", "i.a", "s.o", "s.u", "z.t", "z.zt", "m.e", "bzw", "ca", "evtl", "ggf",
    "inkl", "exkl", "zzgl", "sog", "vgl", "hrsg", "bspw", "insb", "insbes", "geb", "lt",
    "p.ex", "càd", "p.ej", "ej", "aprox", "p.es", "bijv", "d.w.z", "m.b.v", "т.е", "напр",
];

/// Abbreviations with which a sentence ends only if the next word says so: titles and names, and what stands last
/// in a row.
#[rustfmt::skip]
const SELDOM_END: &[&str] = &[
    "mr", "mrs", "ms", "mx", "dr", "drs", "prof", "rev", "hon", "gen", "col", "capt", "cmdr", "sgt", "maj", "sen",
    "rep", "gov", "pres", "st", "mt", "messrs", "etc", "inc", "ltd", "co", "corp", "jr", "sr", "bros", "dept",
    "ave", "blvd", "rd", "ft", "lb", "lbs", "oz", "univ", "al", "assn",
    "hr", "fr", "frl", "dipl", "ing", "usw", "uvm", "mio", "mrd", "str", "jh", "jhd", "chr", "bhf", "allg",
    "env", "mme", "mmes", "mlle", "mgr", "cie", "av", "boul", "éts",
    "sra", "sres", "srta", "dra", "dña", "ud", "uds", "vd", "ee.uu", "avda", "lic", "gral", "cía",
    "sig", "dott", "avv", "ecc", "dhr", "mevr", "enz", "itd", "np", "тыс", "млн", "млрд", "руб", "ул", "т.д", "т.п",
];

/// Abbreviations of what has a number, and words that look like them: "No. 5" goes on, "No. I did not." ends.
#[rustfmt::skip]
const BEFORE_NUMBER: &[&str] = &[
    "no", "nos", "nr", "num", "núm", "pp", "vol", "vols", "ch", "chap", "sec", "sect", "fig", "figs", "eq", "eqs",
    "art", "abs", "abb", "tab", "kap", "bd", "ziff", "anm", "pos", "tel", "ext", "max", "min", "ver", "pág", "págs",
    "cap", "ed", "rn", "aufl", "jan", "feb", "febr", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "okt",
    "nov", "dec", "dez", "janv", "févr", "avr", "juil", "déc", "ene", "abr", "ago", "dic",
];

/// Words that begin sentences and hardly ever are names.
#[rustfmt::skip]
const BEGIN_SENTENCE: &[&str] = &[
    "the", "a", "an", "i", "it", "he", "she", "we", "you", "they", "this", "that", "these", "those", "there", "here",
    "what", "when", "where", "why", "how", "who", "which", "if", "in", "on", "at", "for", "from", "with", "as", "but",
    "and", "or", "so", "then", "now", "yes", "no", "not", "however", "also", "after", "before", "because", "while",
    "although", "my", "your", "his", "her", "its", "our", "their", "is", "are", "was", "do", "does", "did", "can",
    "could", "would", "let", "please", "next", "first", "finally", "some", "many", "most", "one", "all", "each",
    "every", "to", "by", "both", "another", "such", "instead", "once", "since", "until", "thus", "therefore",
    "der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer", "es", "er", "sie", "wir",
    "ihr", "ich", "du", "man", "dies", "diese", "dieser", "dieses", "wenn", "weil", "aber", "und", "oder", "doch",
    "dann", "danach", "dort", "hier", "heute", "jetzt", "auch", "im", "am", "zu", "zum", "zur", "bei", "mit", "nach",
    "vor", "für", "auf", "aus", "was", "wer", "wie", "wo", "warum", "wann", "ja", "nein", "nicht", "damit", "dabei",
    "daher", "deshalb", "außerdem", "jedoch",
    "les", "un", "une", "il", "elle", "ils", "elles", "nous", "vous", "je", "tu", "ce", "cela", "cette", "ces", "ça",
    "mais", "et", "ou", "donc", "puis", "ensuite", "alors", "si", "quand", "où", "pourquoi", "comment", "dans", "en",
    "au", "aux", "pour", "avec", "par", "sur", "après", "avant", "oui", "non",
    "el", "los", "las", "una", "unos", "unas", "él", "ella", "ellos", "ellas", "yo", "tú", "usted", "nosotros",
    "esto", "este", "esta", "ese", "esa", "pero", "cuando", "donde", "cómo", "qué", "por", "para", "con", "después",
    "antes", "entonces", "ahora", "también", "sí", "hay", "además",
];

/// German words after which a number with a full stop says which one: "der 2. Versuch".
#[rustfmt::skip]
const BEFORE_ORDINAL: &[&str] = &[
    "der", "die", "das", "den", "dem", "des", "am", "im", "vom", "zum", "zur", "beim", "jeder", "jede", "jedes",
    "jeden", "ein", "eine", "einen", "einem", "einer", "ihr", "ihre", "ihren", "sein", "seine", "seinen", "seinem",
    "mein", "meine", "meinen", "meinem", "unser", "unsere", "ab", "seit",
];

/// Months that follow a day with a full stop.
#[rustfmt::skip]
const MONTHS: &[&str] = &[
    "januar", "jänner", "februar", "feber", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
    "november", "dezember", "marts", "mars", "maj", "desember", "december",
];

/// What is counted in words: "Step 1. Open the box."
#[rustfmt::skip]
const NUMBERED_PARTS: &[&str] = &[
    "step", "part", "chapter", "section", "question", "option", "rule", "schritt", "teil", "kapitel", "abschnitt",
    "frage", "étape", "partie", "chapitre", "paso", "parte", "capítulo", "passo",
];

pub(super) fn never_ends(abbreviation: &str) -> bool {
    NEVER_END.contains(&abbreviation)
}

pub(super) fn seldom_ends(abbreviation: &str) -> bool {
    SELDOM_END.contains(&abbreviation)
}

pub(super) fn is_before_number(abbreviation: &str) -> bool {
    BEFORE_NUMBER.contains(&abbreviation)
}

pub(super) fn begins_sentence(word: &str) -> bool {
    BEGIN_SENTENCE.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_before_ordinal(word: &str) -> bool {
    BEFORE_ORDINAL.contains(&word.to_lowercase().as_str())
}

pub(super) fn is_month(word: &str) -> bool {
    MONTHS.contains(&word.to_lowercase().as_str())
}

pub(super) fn has_numbered_parts(noun: &str) -> bool {
    NUMBERED_PARTS.contains(&noun)
}
