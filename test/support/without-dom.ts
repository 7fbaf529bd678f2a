/* Lets Node load modules that declare elements, so that their pure parts can be tested. Import it before them. */
Object.assign(globalThis, { HTMLElement: class {} })
