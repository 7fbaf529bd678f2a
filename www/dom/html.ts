/*
 * html`…` describes a piece of a page, and render() writes only what differs from the last rendering. Values become
 * text nodes, attribute values, properties or listeners, never markup: only another template can create an element. An
 * attribute that is an address gets only what address.ts allows, and a value in its middle becomes one segment of it.
 */
import { addressRule, encoded } from './address.js'

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

type ElementPiece = Extract<Piece, { kind: 'element' }>

const voidTags = new Set(['br', 'col', 'hr', 'img', 'input', 'link', 'meta', 'wbr'])
const cut = '\u0000'
const nameEnd = /[\s=>/]/
const attributeStart = /[^\s]/g

/** Parses the constant text of a template; cut n becomes hole n. Throws a SyntaxError on malformed markup. */
export function parseMarkup(strings: readonly string[]): Piece[] {
  const text = strings.join(cut)
  const root: ElementPiece = { kind: 'element', tag: '', attributes: [], children: [] }
  const open = [root]
  let at = 0
  let hole = 0

  const fail = (what: string): never => {
    throw new SyntaxError(`${what} near "${text.slice(Math.max(0, at - 20), at + 20).replaceAll(cut, '${}')}"`)
  }
  const top = (): ElementPiece => open[open.length - 1] as ElementPiece
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
    const element: ElementPiece = { kind: 'element', tag: readName(), attributes: [], children: [] }
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

/** The constant text and the values of a template. Created by html`…`. */
export interface Template {
  readonly strings: TemplateStringsArray
  readonly values: readonly unknown[]
  readonly key: string | undefined
}

/** Creates a template. A value can be text, number, node, template or array of these; null and false show nothing. */
export function html(strings: TemplateStringsArray, ...values: unknown[]): Template {
  return { strings, values, key: undefined }
}

/** Gives a template in a list an identity, so that its nodes move with it when the list changes. */
export function keyed(key: string, template: Template): Template {
  return { ...template, key }
}

const svgNamespace = 'http://www.w3.org/2000/svg'
const parsed = new WeakMap<TemplateStringsArray, Piece[]>()
const rendered = new WeakMap<Node, Child>()

/** Renders a template into an element. The first rendering removes the previous contents of the element. */
export function render(template: Template, into: Element): void {
  let child = rendered.get(into)
  if (child === undefined) {
    into.replaceChildren()
    child = createChild(into.appendChild(new Comment()), into.namespaceURI === svgNamespace)
    rendered.set(into, child)
  }
  child.set(template)
}

/** A position for one value in front of its marker node. */
type Child = ReturnType<typeof createChild>

/** A rendered template. */
interface Instance {
  readonly strings: TemplateStringsArray
  update(values: readonly unknown[]): void
}

const isTemplate = (value: unknown): value is Template =>
  typeof value === 'object' && value !== null && 'strings' in value && 'values' in value

/** Creates a position in front of `marker`. `isSvg`: its elements are part of an SVG image. */
function createChild(marker: ChildNode, isSvg: boolean) {
  let roots: Root[] = []
  let shown: unknown
  let instance: Instance | undefined
  let list: Map<string, Entry> | undefined

  const clear = (): void => {
    for (const root of roots) {
      root.child?.remove()
      root.node.remove()
    }
    for (const entry of list?.values() ?? []) {
      entry.child.remove()
      entry.marker.remove()
    }
    roots = []
    list = undefined
    instance = undefined
  }

  const setTemplate = (template: Template): void => {
    if (instance?.strings !== template.strings) {
      clear()
      const made = instantiate(template, isSvg)
      roots = made.roots
      instance = made.instance
      // Values first, so that the properties of an element are set when it enters the page.
      instance.update(template.values)
      marker.before(made.fragment)
    } else {
      instance.update(template.values)
    }
  }

  const setList = (values: unknown[]): void => {
    if (list === undefined) clear()
    const before = list ?? new Map()
    list = new Map()
    for (const [index, value] of values.entries()) {
      const key = isTemplate(value) && value.key !== undefined ? value.key : `#${index}`
      const known = before.get(key)
      before.delete(key)
      list.set(key, known ?? createEntry(isSvg))
    }
    for (const gone of before.values()) {
      gone.child.remove()
      gone.marker.remove()
    }
    placeInOrder([...list.values()], marker)
    for (const [index, entry] of [...list.values()].entries()) entry.child.set(values[index])
  }

  return {
    set(value: unknown): void {
      if (value === shown && !Array.isArray(value)) return
      shown = value
      if (Array.isArray(value)) return setList(value)
      if (isTemplate(value)) return setTemplate(value)
      if (value instanceof Node) {
        clear()
        roots = [{ node: value as ChildNode, child: undefined }]
        marker.before(value)
        return
      }
      const text = value === null || value === undefined || value === false ? '' : String(value)
      const only = roots[0]?.node
      if (instance === undefined && list === undefined && only instanceof Text && roots.length === 1) {
        only.data = text
        return
      }
      clear()
      if (text === '') return
      const node = new Text(text)
      roots = [{ node, child: undefined }]
      marker.before(node)
    },
    remove: clear,

    /** Moves all nodes of this position in front of `before`. */
    move(before: Node): void {
      for (const root of roots) {
        before.parentNode?.insertBefore(root.node, before)
        root.child?.move(root.node)
      }
      for (const entry of list?.values() ?? []) {
        entry.child.move(before)
        before.parentNode?.insertBefore(entry.marker, before)
      }
    },

    /** Returns the first node of this position, or its marker if it is empty. */
    first(): ChildNode {
      const [root] = roots
      if (root !== undefined) return root.child?.first() ?? root.node
      const [entry] = list?.values() ?? []
      return entry?.child.first() ?? marker
    }
  }
}

/** One value of a list. */
interface Entry {
  child: Child
  marker: ChildNode
}

function createEntry(isSvg: boolean): Entry {
  const marker = new Comment()
  return { child: createChild(marker, isSvg), marker }
}

/**
 * Places entries in order. Walks from the end and moves only entries that are not already in front of their successor,
 * because a moved element leaves the page for a moment and loses the focus. So inserted rows do not move other rows.
 */
function placeInOrder(entries: readonly Entry[], end: ChildNode): void {
  let next = end
  for (const { child, marker } of [...entries].reverse()) {
    if (marker.nextSibling !== next) {
      next.before(marker)
      child.move(marker)
    }
    next = child.first()
  }
}

/** A node at the top level of a template: an element, a text, or the marker of a position. */
interface Root {
  node: ChildNode
  child: Child | undefined
}

type Update = (values: readonly unknown[]) => void

function instantiate(
  template: Template,
  isSvg: boolean
): { fragment: DocumentFragment; roots: Root[]; instance: Instance } {
  const pieces = parsed.get(template.strings) ?? parseMarkup(template.strings)
  parsed.set(template.strings, pieces)
  const updates: Update[] = []
  const fragment = new DocumentFragment()
  const roots = pieces.map(piece => build(piece, fragment, { updates, isSvg }))
  return {
    fragment,
    roots,
    instance: {
      strings: template.strings,
      update(values) {
        for (const update of updates) update(values)
      }
    }
  }
}

function build(piece: Piece, parent: Node, { updates, isSvg }: { updates: Update[]; isSvg: boolean }): Root {
  if (piece.kind === 'text') return { node: parent.appendChild(new Text(piece.text)), child: undefined }
  if (piece.kind === 'hole') {
    const node = parent.appendChild(new Comment())
    const child = createChild(node, isSvg)
    updates.push(values => child.set(values[piece.index]))
    return { node, child }
  }
  const isDrawn = isSvg || piece.tag === 'svg'
  const element = isDrawn ? document.createElementNS(svgNamespace, piece.tag) : document.createElement(piece.tag)
  const properties: Update[] = []
  for (const attribute of piece.attributes) {
    const update = bind(element, attribute)
    if (attribute.parts.every(part => typeof part === 'string')) update([])
    else if (attribute.name.startsWith('.')) properties.push(update)
    else updates.push(update)
  }
  for (const child of piece.children) build(child, element, { updates, isSvg: isDrawn })
  // Properties last: the value of a select has no effect before its options exist.
  updates.push(...properties)
  parent.appendChild(element)
  return { node: element, child: undefined }
}

function bind(element: Element, { name, parts }: Attribute): Update {
  let last: unknown
  const write = writerOf(element, name)
  const wordsOf = addressRule(element.localName, name) === null ? plain : encoded
  return values => {
    const value = valueOf(parts, values, wordsOf)
    if (value === last) return
    last = value
    write(value)
  }
}

/** Returns the value of an attribute. A single hole keeps its type; a hole with text around it becomes text. */
function valueOf(parts: Part[], values: readonly unknown[], wordsOf: (value: unknown) => string): unknown {
  const [only] = parts
  if (parts.length === 1) return typeof only === 'number' ? values[only] : only
  return parts.map(part => (typeof part === 'number' ? wordsOf(values[part]) : part)).join('')
}

const plain = (value: unknown): string => String(value ?? '')

function writerOf(element: Element, name: string): (value: unknown) => void {
  if (name.startsWith('.')) {
    const property = name.slice(1)
    return value => void Reflect.set(element, property, value)
  }
  if (name.startsWith('@')) {
    let listener: ((event: Event) => void) | undefined
    element.addEventListener(name.slice(1), event => listener?.(event))
    return value => void (listener = value as typeof listener)
  }
  const rule = addressRule(element.localName, name)
  return given => {
    const value = rule === null ? given : rule(given)
    if (value === null || value === undefined || value === false) element.removeAttribute(name)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
}

/** The name of an icon in the sprite. */
export type IconName =
  | 'overview'
  | 'projects'
  | 'deployments'
  | 'fleet'
  | 'sign-out'
  | 'success'
  | 'failed'
  | 'running'
  | 'queued'
  | 'idle'
  | 'skipped'
  | 'warning'
  | 'copy'
  | 'check'
  | 'search'
  | 'plus'
  | 'roll-back'
  | 'close'
  | 'download'
  | 'down'
  | 'next'
  | 'logs'
  | 'terminal'
  | 'system'
  | 'settings'
  | 'more'
  | 'pin'
  | 'lock'
  | 'edit'
  | 'delete'
  | 'folder'
  | 'file'
  | 'link'
  | 'up'
  | 'filter'
  | 'tag'
  | 'external'
  | 'pause'
  | 'play'
  | 'wrap'
  | 'theme'
  | 'open'

/** The address of the sprite of this build, which browsers can cache. */
export const sprite = new URL('../icons/sprite.svg', import.meta.url).pathname

/** Returns an icon of the sprite. It is hidden from screen readers, because it always has a label beside it. */
export function icon(name: IconName): Template {
  return html`<svg class="icon" aria-hidden="true"><use href="${`${sprite}#${name}`}"/></svg>`
}
