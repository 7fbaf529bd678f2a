/** Reads the parts of Markdown that the tests of the documents need: headings, links and pictures outside of code. */

export interface Link {
  line: number
  /** A path with an optional anchor, or an address, as in the text. */
  to: string
}

/** Returns the lines of a document; lines of code blocks are empty. */
function proseLines(text: string): string[] {
  let isCode = false
  return text.split('\n').map(line => {
    if (/^ *```/.test(line)) {
      isCode = !isCode
      return ''
    }
    return isCode ? '' : line
  })
}

/** Returns every link and picture, `[words](to)`, including pictures within links. */
export function linksOf(text: string): Link[] {
  return proseLines(text).flatMap((line, index) =>
    [...line.replace(/`[^`]*`/g, code => 'x'.repeat(code.length)).matchAll(/\]\(([^()\s]+)\)/g)].map(([, to = '']) => ({
      line: index + 1,
      to
    }))
  )
}

/** Returns the headings of a level. */
export function headingsOf(text: string, level?: number): string[] {
  return proseLines(text).flatMap(line => {
    const [, marks = '', words = ''] = /^(#{1,6}) +(.*?) *$/.exec(line) ?? []
    return marks === '' || (level !== undefined && marks.length !== level) ? [] : [words]
  })
}

/** Returns the anchor that GitHub, GitLab and Gitea make of a heading. */
export function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

/** Returns the anchors of a document. A repeated heading gets a number. */
export function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>()
  return new Set(
    headingsOf(text).map(heading => {
      const anchor = slug(heading)
      const times = seen.get(anchor) ?? 0
      seen.set(anchor, times + 1)
      return times === 0 ? anchor : `${anchor}-${times}`
    })
  )
}
