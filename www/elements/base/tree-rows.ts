/* A tree of directories as rows. The children of a directory are loaded when it is opened. */

/** One visible directory of the tree. */
export interface TreeRow {
  path: string
  name: string
  /** Depth, from 1. */
  level: number
  isOpen: boolean
  /** Null if not known yet. */
  hasChildren: boolean | null
  /** Position among its siblings, from 1, and the number of siblings. */
  place: number
  siblings: number
}

/** The state of a tree of directories. */
export interface DirectoryTree {
  /** The visible rows from top to bottom. The root is the first row. */
  readonly rows: readonly TreeRow[]
  /** Sets the names of the directories in a directory. */
  fill(path: string, names: readonly string[]): void
  setOpen(path: string, isOpen: boolean): void
  /** Directories that are open and not loaded yet. */
  readonly wanted: readonly string[]
  /** Opens every directory above a path. */
  reveal(path: string): void
}

/** Creates a tree. `root` is the name of the first row; its path is empty. */
export function createTree(root: string): DirectoryTree {
  const children = new Map<string, readonly string[]>()
  const open = new Set<string>([''])

  function rowsBelow(path: string, level: number, rows: TreeRow[]): TreeRow[] {
    const names = children.get(path) ?? []
    for (const [index, name] of names.entries()) {
      const own = path === '' ? name : `${path}/${name}`
      rows.push(rowOf(own, { name, level, place: index + 1, siblings: names.length }))
      if (open.has(own)) rowsBelow(own, level + 1, rows)
    }
    return rows
  }

  function rowOf(path: string, rest: Pick<TreeRow, 'name' | 'level' | 'place' | 'siblings'>): TreeRow {
    const known = children.get(path)
    return { path, ...rest, isOpen: open.has(path), hasChildren: known === undefined ? null : known.length > 0 }
  }

  return {
    get rows() {
      const first = rowOf('', { name: root, level: 1, place: 1, siblings: 1 })
      return first.isOpen ? rowsBelow('', 2, [first]) : [first]
    },
    get wanted() {
      return [...open].filter(path => !children.has(path))
    },
    fill(path, names) {
      children.set(path, names)
    },
    setOpen(path, isOpen) {
      if (isOpen) open.add(path)
      else open.delete(path)
    },
    reveal(path) {
      const segments = path.split('/').filter(Boolean)
      for (let depth = 0; depth < segments.length; depth++) open.add(segments.slice(0, depth).join('/'))
    }
  }
}
