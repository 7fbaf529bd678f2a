/* Colours of trees: each tree has one, and keeps it while it is shown. The short id of the tree is always beside it. */

const palette = ['blue', 'green', 'purple', 'yellow', 'pink', 'cyan'] as const
/** The colour of a tree. Gray: no tree, or more trees than colours. */
export type TreeColor = (typeof palette)[number] | 'gray'

/** Returns the first digits of a tree, which are enough to tell trees apart. */
export function shortTree(tree: string): string {
  return tree.slice(0, 8)
}

/** The colours of the trees that are shown. */
export interface TreeColors {
  /** Gives the trees their colours. Those that were shown before keep theirs; the most frequent trees come first. */
  assign(trees: readonly string[]): void
  of(tree: string | null): TreeColor
}

/** Creates the colours. */
export function createTreeColors(): TreeColors {
  let colors = new Map<string, TreeColor>()
  return {
    assign(trees) {
      const kept = new Map(trees.flatMap(tree => (colors.has(tree) ? [[tree, colors.get(tree) as TreeColor]] : [])))
      const used = new Set(kept.values())
      const free = palette.filter(color => !used.has(color))
      for (const tree of trees) {
        const color = kept.get(tree)
        if (color === undefined || (color === 'gray' && free.length > 0)) kept.set(tree, free.shift() ?? 'gray')
      }
      colors = kept
    },
    of: tree => (tree === null ? 'gray' : (colors.get(tree) ?? 'gray'))
  }
}
