/*
 * Where the symbolic links of an archive lead. A link may point anywhere within the target, and nowhere else.
 *
 * Following the text alone is not enough: with `a/b/c -> ../..` (the target itself) the text `a/b/c/..` looks like
 * `a/b` and is the directory above the target. So a link is followed segment by segment, as the kernel would, through
 * the other links of the archive and through links that the target has already.
 */
import { refuse } from './names.js'

/** As many links as Linux follows in one path. */
const maxLinksFollowed = 40
/** PATH_MAX. */
export const maxLinkBytes = 4096

/**
 * `links` has each link's path and text; `linkInTarget` answers the text of a link that the target has at a path, or
 * null. Refuses (`invalid`): link_leaves_target, link_loop, empty_link.
 */
export function checkLinks(links: ReadonlyMap<string, string>, linkInTarget: (path: string) => string | null): void {
  for (const [path, text] of links) {
    if (text === '' || text.includes('\0')) throw refuse('empty_link', path, 'it is a symbolic link to nothing')
    follow(path, text, links, linkInTarget)
  }
}

function follow(
  path: string, text: string, links: ReadonlyMap<string, string>, linkInTarget: (path: string) => string | null
): void {
  const leaves = (): Error =>
    refuse('link_leaves_target', path, `it is a symbolic link to ${JSON.stringify(text)}, which leaves the target`)
  const at = path.split('/').slice(0, -1)
  const ahead = text.split('/').reverse()
  let followed = 1
  if (isAbsolute(text)) throw leaves()
  while (ahead.length > 0) {
    const segment = ahead.pop() as string
    if (segment === '' || segment === '.') continue
    if (segment === '..') {
      if (at.pop() === undefined) throw leaves()
      continue
    }
    at.push(segment)
    const here = at.join('/')
    const next = links.get(here) ?? linkInTarget(here)
    if (next === null) continue
    if (isAbsolute(next)) throw leaves()
    if (++followed > maxLinksFollowed) throw refuse('link_loop', path, 'its links lead round in a circle')
    at.pop()
    ahead.push(...next.split('/').reverse())
  }
}

function isAbsolute(text: string): boolean {
  return text.startsWith('/') || text.includes('\\') || /^[a-z]:/i.test(text)
}
