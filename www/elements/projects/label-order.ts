import type { Label } from '../../../lib/model/project.js'

/* The order of labels by their sort numbers. Pure. */

/** Returns the items with the one at `from` moved to `to`. A position outside of the list becomes its nearest end. */
export function moved<T>(items: readonly T[], from: number, to: number): T[] {
  const rest = [...items]
  const [item] = rest.splice(from, 1)
  if (item === undefined) return [...items]
  rest.splice(Math.max(0, Math.min(to, rest.length)), 0, item)
  return rest
}

/**
 * Returns the labels that need another number for this order. Numbers begin at 1, so that a new label (0) comes first.
 */
export function orderChanges(labels: readonly Label[]): Array<{ id: string; sortOrder: number }> {
  return labels
    .map(({ id, sortOrder }, index) => ({ id, isRight: sortOrder === index + 1, sortOrder: index + 1 }))
    .filter(({ isRight }) => !isRight)
    .map(({ id, sortOrder }) => ({ id, sortOrder }))
}
