/** What may be done to many projects at once (decisions §10). */
export const bulkActions = ['delete', 'setCategory', 'addTags', 'removeTags'] as const

export interface BulkAction {
  action: (typeof bulkActions)[number]
  /** Of `setCategory`; null: the default one. */
  categoryId: string | null
  /** Of `addTags` and `removeTags`. */
  tagIds?: string[] | undefined
}

/** How many it was done to, and who refused, each with the reason. */
export interface BulkOutcome {
  done: number
  failed: Array<{ id: string; error: string }>
}
