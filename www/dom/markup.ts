/*
 * Parses the constant text of a template into a tree of pieces. Pure: does not use the DOM, so it runs anywhere.
 *
 * The text is cut at each value. States, and what ends each:
 *   text        `<` begins a tag; a cut becomes a hole for a child
 *   tag         the name ends at white space, `>` or `/`
 *   attributes  `>` or `/>` ends the tag; a name is followed by `=` or has no value
 *   value       the closing quote; a cut inside becomes a hole
 *
 * Stricter than HTML on purpose: every element that is not void must be closed, every value must be quoted, and there
 * are no entities. A mistake throws when the template is first rendered, and the error quotes the text around it.
 */

/** The index of a value, or constant text. */
export type Part = string | number

/** An attribute of an element in a template. */
export interface Attribute {
  /** As written. A leading `.` means a property, `@` an event listener. */
  name: string
  parts: Part[]
}

/** A node of a parsed template. */
export type Piece =
  | { kind: 'text'; text: string }
  | { kind: 'hole'; index: number }
  | { kind: 'element'; tag: string; attributes: Attribute[]; children: Piece[] }

type Element = Extract<Piece, { kind: 'element' }>

const voidTags = new Set(['br', 'col', 'hr', 'img', 'input', 'link', 'meta', 'wbr'])
const cut = '\u0000'
const nameEnd = /[\s=>/]/
const attributeStart = /[^\s]/g

/** Parses the constant text of a template; cut n becomes hole n. Throws a SyntaxError on malformed markup. */
export function parseMarkup(strings: readonly string[]): Piece[] {
  const text = strings.join(cut)
  const root: Element = { kind: 'element', tag: '', attributes: [], children: [] }
  const open = [root]
  let at = 0
  let hole = 0

  const fail = (what: string): never => {
    throw new SyntaxError(`${what} near "${text.slice(Math.max(0, at - 20), at + 20).replaceAll(cut, '${}')}"`)
  }
  const top = (): Element => open[open.length - 1] as Element
  const partsOf = (raw: string): Part[] => {
    const parts: Part[] = []
    for (const [index, piece] of raw.split(cut).entries()) {
      if (index > 0) parts.push(hole++)
      if (piece !== '') parts.push(piece)
    }
    return parts
  }

  const readText = (): void => {
    const end = text.indexOf('<', at)
    for (const part of partsOf(text.slice(at, end === -1 ? text.length : end))) {
      if (typeof part === 'number') {
        top().children.push({ kind: 'hole', index: part })
        continue
      }
      // Indentation is only for readers of the source: on its own it is dropped, beside a word it becomes one space.
      const shown = part.replace(/(?<!\s)\s*\n\s*/g, '\n')
      if (shown !== '\n') top().children.push({ kind: 'text', text: shown.replaceAll('\n', ' ') })
    }
    at = end === -1 ? text.length : end
  }

  const readName = (): string => {
    const from = at
    while (at < text.length && !nameEnd.test(text[at] as string)) at++
    if (at === from) fail('A name is missing')
    return text.slice(from, at)
  }

  const readAttribute = (): Attribute => {
    const name = readName()
    if (name.includes(cut)) fail('An attribute cannot be named by a value')
    if (text[at] !== '=') return { name, parts: [''] }
    if (text[at + 1] !== '"') fail(`The value of ${name} is not quoted`)
    const end = text.indexOf('"', at + 2)
    if (end === -1) fail(`The value of ${name} is not closed`)
    const parts = partsOf(text.slice(at + 2, end))
    at = end + 1
    return { name, parts: parts.length === 0 ? [''] : parts }
  }

  const readTag = (): void => {
    at++
    if (text[at] === '/') {
      at++
      const name = readName()
      if (open.length === 1 || top().tag !== name) fail(`</${name}> closes nothing`)
      open.pop()
      at = text.indexOf('>', at) + 1
      return
    }
    const element: Element = { kind: 'element', tag: readName(), attributes: [], children: [] }
    top().children.push(element)
    for (;;) {
      attributeStart.lastIndex = at
      at = attributeStart.exec(text)?.index ?? fail(`<${element.tag}> is not closed`)
      if (text[at] === '>' || text.startsWith('/>', at)) break
      element.attributes.push(readAttribute())
    }
    const closed = text[at] === '/'
    at += closed ? 2 : 1
    if (!closed && !voidTags.has(element.tag)) open.push(element)
  }

  while (at < text.length) {
    if (text[at] === '<') readTag()
    else readText()
  }
  if (open.length > 1) fail(`<${top().tag}> is not closed`)
  return root.children
}
