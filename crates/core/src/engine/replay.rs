//! What someone gets who has missed something: every kept stanza after the last one seen, with its own number and bytes,
//! and then what happens now, without a gap or a double in between.
//!
//! While the store reads, nothing that is kept goes to that one: it is held here, and follows what was read. If too much
//! comes meanwhile it is let go and read as well. Where a stanza is no longer kept, the conversation itself is shown
//! instead (`snapshot`). Never sent: what was said before that identity first joined, and what it may not see.

use super::event::{Output, Recipients, Ticket};
use super::record::{Page, Stanza};
use super::{Complaint, Engine};
use std::collections::VecDeque;

/// How much is read at once.
const PAGE: usize = 500;
/// How much is held meanwhile, in stanzas and in bytes.
const MAX_HELD: usize = 1_000;
const MAX_HELD_BYTES: usize = 256 << 10;

/// Someone who is being told what it missed.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// The reading that is under way.
    ticket: Ticket,
    /// What is read next comes after this one, up to that one.
    after: i32,
    until: i32,
    /// Only what is newer than this is sent: older things were shown in a snapshot.
    shown: i32,
    held: VecDeque<Stanza>,
    held_bytes: usize,
    /// Too much came: what was held is to be read too.
    overflowed: bool,
}

impl Engine {
    /// A client has seen everything up to this number.
    pub(super) fn catch_up(&mut self, identity: &str, seen: i32) {
        let Some(since) = self.people.since(identity) else { return };
        // Numbers count down. Clients may say them without their sign.
        let seen = 0i32.saturating_sub_unsigned(seen.unsigned_abs());
        let newest = self.outbox.number();
        let after = if self.settings.share_history { seen } else { seen.min(since.number) };
        let newest_kept = self.outbox.newest_kept(|audience| self.people.takes(identity, audience));
        let until = newest_kept.unwrap_or(0);
        // A number that was never given is one of a conversation that is forgotten.
        let forgotten = seen < newest;
        if !forgotten && until >= after {
            return self.stop_catching_up(identity);
        }
        // Little is asked for much: that is not to be had any number of times.
        if !self.people.get(identity, self.now).replays.take(self.now) {
            let complaint =
                Complaint::later(429, "You ask for what you missed too often. Wait a little and ask again.");
            return self.complain(identity, false, None, complaint);
        }
        if forgotten {
            self.stop_catching_up(identity);
            return self.show_instead(identity);
        }
        self.outbox.leave_out(identity, &self.people);
        let catch_up = CatchUp {
            ticket: Ticket(0),
            after,
            until,
            shown: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            overflowed: false,
        };
        self.read_on(identity.to_owned(), catch_up);
    }

    /// Whoever leaves is told nothing more; and what it had seen is asked for anew when it comes back.
    pub(super) fn stop_catching_up(&mut self, identity: &str) {
        if self.catching_up.remove(identity).is_some() {
            self.people.get(identity, self.now).catching_up = false;
        }
    }

    /// Keeps a stanza for those who cannot have it yet.
    pub(super) fn hold_for_later(&mut self, stanza: &Stanza) {
        for (identity, catch_up) in &mut self.catching_up {
            if catch_up.overflowed || !self.people.takes(identity, &stanza.audience) {
                continue;
            }
            catch_up.held_bytes += stanza.bytes.len();
            catch_up.held.push_back(stanza.clone());
            if catch_up.held.len() > MAX_HELD || catch_up.held_bytes > MAX_HELD_BYTES {
                catch_up.overflowed = true;
                catch_up.held.clear();
            }
        }
    }

    /// The store has read something.
    pub(super) fn replayed(&mut self, ticket: Ticket, page: Option<Page>) {
        let found = self.catching_up.iter().find(|(_, catch_up)| catch_up.ticket == ticket);
        let Some(identity) = found.map(|(identity, _)| identity.clone()) else { return };
        let Some(mut catch_up) = self.catching_up.remove(&identity) else { return };
        let Some(Page { stanzas, incomplete }) = page else {
            let complaint =
                Complaint::later(501, "What you missed cannot be read just now. Ask again later.");
            self.complain(&identity, false, None, complaint);
            return self.go_live(&identity, catch_up);
        };
        if incomplete && catch_up.shown == 0 {
            self.show_instead(&identity);
            // What is being said just now is in no snapshot; its stanzas are young enough to be here.
            catch_up.shown = self.turn.as_ref().map_or(catch_up.until, |turn| turn.begun_after);
        }
        let last = stanzas.last().map(|stanza| stanza.number);
        for stanza in stanzas {
            self.send_again(&identity, &catch_up, stanza);
        }
        match last {
            Some(last) if last > catch_up.until => {
                catch_up.after = last;
                self.read_on(identity, catch_up);
            }
            _ if catch_up.overflowed => {
                catch_up.after = catch_up.until;
                catch_up.until = self.outbox.number();
                catch_up.overflowed = false;
                catch_up.held_bytes = 0;
                self.read_on(identity, catch_up);
            }
            _ => self.go_live(&identity, catch_up),
        }
    }

    fn read_on(&mut self, identity: String, mut catch_up: CatchUp) {
        let ticket = self.outbox.ticket();
        catch_up.ticket = ticket;
        let CatchUp { after, until, .. } = catch_up;
        self.people.get(&identity, self.now).catching_up = true;
        self.catching_up.insert(identity, catch_up);
        self.outputs.push_back(Output::Replay { ticket, after, until, most: PAGE });
    }

    /// What was held follows what was read; from now on everything goes out as it comes.
    fn go_live(&mut self, identity: &str, mut catch_up: CatchUp) {
        for stanza in std::mem::take(&mut catch_up.held) {
            self.send_again(identity, &catch_up, stanza);
        }
        self.people.get(identity, self.now).catching_up = false;
    }

    /// Behind all that is on its way, so never before the store has it. What the one may see is judged now.
    fn send_again(&mut self, identity: &str, catch_up: &CatchUp, stanza: Stanza) {
        let hidden = catch_up.shown != 0 && stanza.number >= catch_up.shown;
        if !hidden && self.people.takes(identity, &stanza.audience) {
            let to = Recipients::Only(vec![identity.to_owned()]);
            self.outbox.follow(Output::Send { to, bytes: stanza.bytes }, &mut self.outputs);
        }
    }

    /// The conversation itself, in place of stanzas that are no longer kept.
    fn show_instead(&mut self, identity: &str) {
        let complaint =
            Complaint::later(202, "What you missed is no longer kept word for word. Here is what was said.");
        self.complain(identity, false, None, complaint);
        for body in self.snapshot(identity) {
            self.outbox.send_unkept(identity.to_owned(), body, &mut self.outputs);
        }
    }
}
