/* A tree of directories as rows, of which each is loaded when it is opened. Pure but for its memory. */

export interface TreeRow {
  path: string
  name: string
  /** From 1. */
  level: number
  isOpen: boolean
  /** Null: not known yet. */
  hasChildren: boolean | null
  /** Among its siblings, from 1, and how many they are. */
  place: number
  siblings: number
}

export interface DirectoryTree {
  /** What is to be seen, from above. The root is the first row. */
  readonly rows: readonly TreeRow[]
  /** The directories in a directory, by their names. */
  fill(path: string, names: readonly string[]): void
  setOpen(path: string, isOpen: boolean): void
  /** Directories that are open and were not filled yet: what is to be loaded. */
  readonly wanted: readonly string[]
  /** Opens every directory above a path. */
  reveal(path: string): void
}

/** `root`: the name of the first row; its path is empty. */
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
