//! Any people, any model and any store, in any order: the rules of a conversation hold. The first byte chooses the
//! settings, each four bytes that follow are one action; see `world.rs`, which looks at every output.

extern crate sotto_core;

#[path = "../../src/engine/tests/shelf.rs"]
mod shelf;
#[path = "../../src/engine/tests/world.rs"]
mod world;

pub(crate) fn check(bytes: &[u8]) {
    let Some((&choice, actions)) = bytes.split_first() else { return };
    let mut world = world::World::new(world::settings(choice), choice);
    for action in actions.as_chunks().0 {
        world.act(*action);
    }
    world.settle();
}
