/* The names of two directories in memory, for the disk that records changes to them (recording-disk.ts). */
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { basename, dirname, join } from 'node:path'

export interface Node {
  id: number
  kind: 'directory' | 'file' | 'symlink'
  mode: number
  mtimeMs: number
  to: string
  entries: Map<string, Node>
  /** Names that were changed and not synced since. */
  dirty: Set<string>
}

let lastId = 0

/** Returns a number for a new file or directory. */
export function newId(): number {
  return ++lastId
}

export function find(root: Node, path: string): Node | undefined {
  return path
    .split('/')
    .filter(Boolean)
    .reduce<Node | undefined>((node, name) => node?.entries.get(name), root)
}

function parentIn(root: Node, path: string): Node {
  return find(root, path.includes('/') ? dirname(path) : '') as Node
}

/** Returns the directory. */
export function set(root: Node, path: string, node: Node): Node {
  const parent = parentIn(root, path)
  parent.entries.set(basename(path), node)
  parent.dirty.add(basename(path))
  return parent
}

export function drop(root: Node, path: string): Node {
  const parent = parentIn(root, path)
  parent.entries.delete(basename(path))
  parent.dirty.add(basename(path))
  return parent
}

/** Reads everything below a directory. `like` gives entries the ids that they have there. Hard links are one node. */
export function read(directory: string, like?: Node): Node {
  const byInode = new Map<number, Node>()
  const visit = (place: string, twin: Node | undefined): Node => {
    const stats = lstatSync(place)
    const known = byInode.get(stats.ino)
    if (known !== undefined) return known
    const kind = stats.isDirectory() ? 'directory' : stats.isSymbolicLink() ? 'symlink' : 'file'
    const node: Node = {
      id: twin?.id ?? newId(),
      kind,
      mode: stats.mode & 0o7777,
      mtimeMs: stats.mtimeMs,
      to: kind === 'symlink' ? readlinkSync(place) : '',
      entries: new Map(),
      dirty: new Set()
    }
    byInode.set(stats.ino, node)
    for (const name of kind === 'directory' ? readdirSync(place) : []) {
      node.entries.set(name, visit(join(place, name), twin?.entries.get(name)))
    }
    return node
  }
  return visit(directory, like)
}

export function copy(root: Node): Node {
  const copies = new Map<Node, Node>()
  const visit = (node: Node): Node => {
    const known = copies.get(node)
    if (known !== undefined) return known
    const made: Node = { ...node, entries: new Map(), dirty: new Set() }
    copies.set(node, made)
    for (const [name, child] of node.entries) made.entries.set(name, visit(child))
    return made
  }
  return visit(root)
}

export function eachFile(root: Node, use: (node: Node, path: string) => void, path = ''): void {
  for (const [name, node] of root.entries) {
    if (node.kind === 'file') use(node, `${path}${name}`)
    else eachFile(node, use, `${path}${name}/`)
  }
}

export function eachDirectory(node: Node, use: (node: Node) => void): void {
  use(node)
  for (const child of node.entries.values()) if (child.kind === 'directory') eachDirectory(child, use)
}

/** Makes everything below a directory equal to the node. */
export function write(directory: string, root: Node, contentsOf: (id: number) => Buffer): void {
  const places = new Map<Node, string>()
  const visit = (node: Node, place: string): void => {
    const other = places.get(node)
    if (other !== undefined) return linkSync(other, place)
    places.set(node, place)
    if (node.kind === 'symlink') return symlinkSync(node.to, place)
    if (node.kind === 'file') writeFileSync(place, contentsOf(node.id))
    else mkdirSync(place)
    for (const [name, child] of node.entries) visit(child, join(place, name))
    chmodSync(place, node.mode)
    utimesSync(place, node.mtimeMs / 1000, node.mtimeMs / 1000)
  }
  for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true })
  for (const [name, node] of root.entries) visit(node, join(directory, name))
}
