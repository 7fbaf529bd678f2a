/** The actions that can be applied to many projects at once (decisions §10). */
export const bulkActions = ['delete', 'setCategory', 'addTags', 'removeTags', 'setClientScripts'] as const

/** Maximum number of projects of one request. */
export const maxBulk = 200

/** An action and its parameters. */
export interface BulkAction {
  action: (typeof bulkActions)[number]
  /** The category for `setCategory`; null for the default one. */
  categoryId: string | null
  /** The tags for `addTags` and `removeTags`. */
  tagIds?: string[] | undefined
  /** For `setClientScripts`; null for the setting of the server. */
  allowClientScripts?: boolean | null | undefined
}

/**
 * The result of a bulk action: how many projects it was applied to, and the projects that refused it, with the reason.
 */
export interface BulkOutcome {
  done: number
  failed: Array<{ id: string; error: string }>
}
