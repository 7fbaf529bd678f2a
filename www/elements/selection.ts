/** Chosen rows of a list, by their ids. */
export interface Selection {
  readonly ids: ReadonlySet<string>
  /** Chooses one, or lets it go; from there a range may be drawn. */
  toggle(id: string): void
  /** Does to all between the last one toggled and this one what was done to that. */
  extend(id: string, order: readonly string[]): void
  /** Exactly these. */
  set(ids: Iterable<string>): void
}

/** Pure but for its memory. */
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
