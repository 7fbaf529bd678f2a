import { labelColors } from '../../model/label.js'
import type { Label, LabelKind } from '../../model/label.js'
import type { Reader, Transaction } from '../database.js'
import { choice, number, text } from './columns.js'
import type { Columns } from './columns.js'
import { tableOf } from './table.js'

/** `projectCount` is computed by the query, not stored. */
const columns: Columns<Label> = {
  id: text,
  name: text,
  color: choice(labelColors),
  sortOrder: number,
  projectCount: number,
  createdAt: text,
  updatedAt: text
}

const tables = {
  category: {
    ...tableOf('categories', columns, ['projectCount']),
    select: 'SELECT l.*, (SELECT count(*) FROM projects p WHERE p.categoryId = l.id) AS projectCount FROM categories l'
  },
  tag: {
    ...tableOf('tags', columns, ['projectCount']),
    select: 'SELECT l.*, (SELECT count(*) FROM projectTags p WHERE p.tagId = l.id) AS projectCount FROM tags l'
  }
}

/** Adds a category or tag. Names are unique regardless of case: a duplicate throws SQLite's error. */
export function insertLabel(tx: Transaction, kind: LabelKind, label: Label): void {
  tables[kind].insert(tx, label)
}

/** Writes the fields that are present to the label with this id; returns false if there is none. */
export function updateLabel(tx: Transaction, kind: LabelKind, patch: Partial<Label> & Pick<Label, 'id'>): boolean {
  return tables[kind].update(tx, patch.id, patch)
}

/** Removes a label, also from its projects; returns the number of these projects. */
export function deleteLabel(tx: Transaction, kind: LabelKind, id: string): number {
  const label = findLabel(tx, kind, id)
  tables[kind].delete(tx, id)
  return label?.projectCount ?? 0
}

/** Returns one label by its id. */
export function findLabel(db: Reader, kind: LabelKind, id: string): Label | undefined {
  const { select, read } = tables[kind]
  return db.all(`${select} WHERE l.id = ?`, id).map(read)[0]
}

/** Returns one label by its name, regardless of case (ASCII only, like the unique index). */
export function findLabelByName(db: Reader, kind: LabelKind, name: string): Label | undefined {
  const { select, read } = tables[kind]
  return db.all(`${select} WHERE l.name = ?`, name).map(read)[0]
}

/** Returns all labels of a kind, sorted by sortOrder, then by name. */
export function listLabels(db: Reader, kind: LabelKind): Label[] {
  const { select, read } = tables[kind]
  return db.all(`${select} ORDER BY l.sortOrder, l.name, l.id`).map(read)
}
