/*
 * Where the symbolic links of an archive lead. A link may point anywhere within the target, and nowhere else.
 *
 * Following the text alone is not enough: with `a/b/c -> ../..` (the target itself) the text `a/b/c/..` looks like
 * `a/b` and is the directory above the target. So a link is followed segment by segment, as the kernel would, through
 * the other links of the archive and through links that the target has already.
 *
 * Where a link leads depends on nothing but its own place, so each is followed once, and remembered. What remains is
 * bounded over all links together: each look at the target costs the length of the path that is looked at.
 */
import { parentOf } from '../base/paths.js'
import { checkCharacters, quoteName, refuse } from './names.js'

/** As many links as Linux follows in one path. */
const maxLinksFollowed = 40
/** PATH_MAX. */
export const maxLinkBytes = 4096
/**
 * What following may cost, for each link and for all: a look at the target costs `lookCost` and the length of the path.
 * A link of a `node_modules` costs some 500. measured: bench/hostile
 */
const maxCostOfEach = 4 * 1024
const maxCostOfAny = 128 * 1024
const lookCost = 64

/** Where a link leads, and how many links are on the way, itself included. */
interface Led {
  place: string
  followed: number
}

/**
 * `links` has each link's path and text; `linkInTarget` returns the text of a link that the target has at a path, or
 * null; `check` is called at each step, and throws to give up. Refuses (`invalid`): link_leaves_target, link_loop,
 * empty_link, links_too_long, and characters that no name may have.
 */
export function checkLinks(
  links: ReadonlyMap<string, string>, linkInTarget: (path: string) => string | null, check: () => void = () => {}
): void {
  const known = new Map<string, Led>()
  let left = links.size * maxCostOfEach + maxCostOfAny
  /** The link of the archive that is followed now: a refusal names it. */
  let top = { path: '', text: '' }

  function step(cost: number): void {
    check()
    left -= cost
    if (left < 0) throw refuse('links_too_long', top.path, 'its links take too many steps to follow; make them shorter')
  }

  /** `before`: links that were followed on the way here. */
  function follow(path: string, text: string, before: number): Led {
    if (before >= maxLinksFollowed) throw refuse('link_loop', top.path, 'its links lead round in a circle')
    if (isAbsolute(text)) throw leaves(top)
    let place = parentOf(path)
    let followed = 1
    for (const segment of text.split('/')) {
      step(1)
      if (segment === '' || segment === '.') continue
      if (segment === '..') {
        if (place === '') throw leaves(top)
        place = parentOf(place)
        continue
      }
      place = place === '' ? segment : `${place}/${segment}`
      step(lookCost + place.length)
      const led = ledFrom(place, before + followed)
      if (led === null) continue
      followed += led.followed
      place = led.place
    }
    return { place, followed }
  }

  /** Null if no link is there. */
  function ledFrom(path: string, before: number): Led | null {
    let led = known.get(path)
    if (led === undefined) {
      const text = links.get(path) ?? linkInTarget(path)
      if (text === null) return null
      led = follow(path, text, before)
      known.set(path, led)
    }
    if (before + led.followed > maxLinksFollowed) throw refuse('link_loop', top.path, 'its links lead round in a circle')
    return led
  }

  for (const [path, text] of links) {
    if (text === '' || text.includes('\0')) throw refuse('empty_link', path, 'it is a symbolic link to nothing')
    checkCharacters(text, path, 'where it leads')
    top = { path, text }
    ledFrom(path, 0)
  }
}

function leaves({ path, text }: { path: string; text: string }): Error {
  return refuse('link_leaves_target', path, `it is a symbolic link to ${quoteName(text)}, which leaves the target`)
}

function isAbsolute(text: string): boolean {
  return text.startsWith('/') || text.includes('\\') || /^[a-z]:/i.test(text)
}
