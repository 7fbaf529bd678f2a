/** The selected rows of a list, by id. */
export interface Selection {
  readonly ids: ReadonlySet<string>
  /** Selects or deselects a row; a later range begins at it. */
  toggle(id: string): void
  /** Applies the last toggle to all rows between that row and this one. */
  extend(id: string, order: readonly string[]): void
  /** Selects exactly these rows. */
  set(ids: Iterable<string>): void
}

/** Creates an empty selection. */
export function createSelection(): Selection {
  let ids = new Set<string>()
  let anchor: string | null = null
  return {
    get ids() {
      return ids
    },
    toggle(id) {
      ids = new Set(ids)
      if (!ids.delete(id)) ids.add(id)
      anchor = id
    },
    extend(id, order) {
      const from = anchor === null ? -1 : order.indexOf(anchor)
      const to = order.indexOf(id)
      if (from === -1 || to === -1) return this.toggle(id)
      const isChosen = ids.has(anchor as string)
      ids = new Set(ids)
      for (const each of order.slice(Math.min(from, to), Math.max(from, to) + 1)) {
        if (isChosen) ids.add(each)
        else ids.delete(each)
      }
      anchor = id
    },
    set(chosen) {
      ids = new Set(chosen)
      if (anchor !== null && !ids.has(anchor)) anchor = null
    }
  }
}
