/*
 * Checks where the symbolic links of an archive lead. A link may point anywhere within the target, and nowhere else.
 *
 * Checking the text alone is not enough: with `a/b/c -> ../..` (the target itself), the text `a/b/c/..` looks like
 * `a/b` but is the directory above the target. So a link is followed segment by segment, as the kernel would, through
 * the other links of the archive and through links that the target already has.
 *
 * The end of a link depends only on its own path, so each link is followed once, and remembered. The remaining cost is
 * limited over all links together: each lookup in the target costs the length of its path.
 */
import { parentOf } from '../base/files.js'
import { checkCharacters, quoteName, refuse } from './names.js'

/** Maximum number of links in one path, as in Linux. */
const maxLinksFollowed = 40
/** Maximum length of a link's text (PATH_MAX). */
export const maxLinkBytes = 4096
/**
 * Maximum cost of following links, for each link and in addition for all: a lookup in the target costs `lookCost` and
 * the length of the path. A link of a `node_modules` costs about 500. measured: bench/hostile
 */
const maxCostOfEach = 4 * 1024
const maxCostOfAny = 128 * 1024
const lookCost = 64

/** The end of a link, and the number of links on the way, including the link itself. */
interface Led {
  place: string
  followed: number
}

/**
 * Checks the links of an archive. `links` maps the path of each link to its text. `linkInTarget` returns the text of a
 * link that the target has at a path, or null. `check` is called at each step, and throws to abort. Refuses
 * (`invalid`): link_leaves_target, link_loop, empty_link, links_too_long, and characters that are not allowed in names.
 */
export function checkLinks(
  links: ReadonlyMap<string, string>,
  linkInTarget: (path: string) => string | null,
  check: () => void = () => {}
): void {
  const known = new Map<string, Led>()
  let left = links.size * maxCostOfEach + maxCostOfAny
  /** The link of the archive that is being followed, for the refusal. */
  let top = { path: '', text: '' }

  function step(cost: number): void {
    check()
    left -= cost
    if (left < 0)
      throw refuse('links_too_long', top.path, 'its symbolic links take too many steps to follow. Shorten them')
  }

  /** `before` is the number of links that were followed on the way here. */
  function follow(path: string, text: string, before: number): Led {
    if (before >= maxLinksFollowed) throw refuse('link_loop', top.path, 'its symbolic links form a loop')
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

  /** Returns null if there is no link at the path. */
  function ledFrom(path: string, before: number): Led | null {
    let led = known.get(path)
    if (led === undefined) {
      const text = links.get(path) ?? linkInTarget(path)
      if (text === null) return null
      led = follow(path, text, before)
      known.set(path, led)
    }
    if (before + led.followed > maxLinksFollowed) throw refuse('link_loop', top.path, 'its symbolic links form a loop')
    return led
  }

  for (const [path, text] of links) {
    if (text === '' || text.includes('\0')) throw refuse('empty_link', path, 'it is an empty symbolic link')
    checkCharacters(text, path, 'its link target')
    top = { path, text }
    ledFrom(path, 0)
  }
}

function leaves({ path, text }: { path: string; text: string }): Error {
  return refuse('link_leaves_target', path, `it is a symbolic link to ${quoteName(text)}, outside the target`)
}

function isAbsolute(text: string): boolean {
  return text.startsWith('/') || text.includes('\\') || /^[a-z]:/i.test(text)
}
