import type { Instant } from './scalars.js'

/** The colours of categories and tags (§2.6). */
export const labelColors = ['blue', 'green', 'yellow', 'purple', 'pink', 'cyan', 'gray'] as const
/** The colour of a label. */
export type LabelColor = (typeof labelColors)[number]

/** A category (a project has at most one) or a tag (a project may have many): the same record (§2.6). @schema Label */
export interface Label {
  id: string
  name: string
  color: LabelColor
  /** Position in lists: smaller numbers come first. */
  sortOrder: number
  /** Number of projects with this label. */
  projectCount: number
  createdAt: Instant
  updatedAt: Instant
}

/** Whether a label is a category or a tag. */
export type LabelKind = 'category' | 'tag'
