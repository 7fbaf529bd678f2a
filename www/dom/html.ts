import { addressRule, encoded } from './address.js'
import { parseMarkup, type Attribute, type Part, type Piece } from './markup.js'

/*
 * html`…` describes a piece of a page, and render() writes only what differs from the last rendering. Values become
 * text nodes, attribute values, properties or listeners, never markup: only another template can create an element. An
 * attribute that is an address gets only what address.ts allows, and a value in its middle becomes one segment of it.
 */

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
interface Child {
  set(value: unknown): void
  remove(): void
  /** Moves all nodes of this position in front of `before`. */
  move(before: Node): void
  /** Returns the first node of this position, or its marker if it is empty. */
  first(): ChildNode
}

/** A rendered template. */
interface Instance {
  readonly strings: TemplateStringsArray
  update(values: readonly unknown[]): void
}

const isTemplate = (value: unknown): value is Template =>
  typeof value === 'object' && value !== null && 'strings' in value && 'values' in value

/** Creates a position in front of `marker`. `isSvg`: its elements are part of an SVG image. */
function createChild(marker: ChildNode, isSvg: boolean): Child {
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
    set(value) {
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
    move(before) {
      for (const root of roots) {
        before.parentNode?.insertBefore(root.node, before)
        root.child?.move(root.node)
      }
      for (const entry of list?.values() ?? []) {
        entry.child.move(before)
        before.parentNode?.insertBefore(entry.marker, before)
      }
    },
    first() {
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
