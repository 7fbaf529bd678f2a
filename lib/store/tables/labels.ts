import type { Label, LabelKind } from '../../model/label.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'
import type { Columns } from './columns.js'

/** What a label's own row holds: how many projects carry it is counted. */
type LabelRow = Omit<Label, 'projectCount'>

const kinds = { id: 'plain', name: 'plain', color: 'plain', sortOrder: 'plain', createdAt: 'plain', updatedAt: 'plain' } as const

interface LabelTable {
  columns: Columns<LabelRow>
  select: string
}

const tables: Record<LabelKind, LabelTable> = {
  category: {
    columns: columnsOf<LabelRow>('categories', kinds),
    select: 'SELECT l.*, (SELECT count(*) FROM projects p WHERE p.categoryId = l.id) AS projectCount FROM categories l'
  },
  tag: {
    columns: columnsOf<LabelRow>('tags', kinds),
    select: 'SELECT l.*, (SELECT count(*) FROM projectTags p WHERE p.tagId = l.id) AS projectCount FROM tags l'
  }
}

/** Adds a category or tag. Names are unique without regard to case: a second one throws what SQLite says. */
export function insertLabel(tx: Transaction, kind: LabelKind, label: Label): void {
  tables[kind].columns.insert(tx, label)
}

/** Writes the fields that are present; gives false where there is no such label. */
export function updateLabel(tx: Transaction, kind: LabelKind, id: string, patch: Partial<Label>): boolean {
  return tables[kind].columns.update(tx, id, patch) > 0
}

/** Removes a label; its projects fall back to none. Gives how many there were. */
export function deleteLabel(tx: Transaction, kind: LabelKind, id: string): number {
  const label = findLabel(tx, kind, id)
  tx.run(kind === 'category' ? 'DELETE FROM categories WHERE id = ?' : 'DELETE FROM tags WHERE id = ?', id)
  return label?.projectCount ?? 0
}

/** One label by its id. */
export function findLabel(db: Reader, kind: LabelKind, id: string): Label | undefined {
  return db.get<Label>(`${tables[kind].select} WHERE l.id = ?`, id)
}

/** One label by its name, without regard to case (ASCII, as the unique index compares). */
export function findLabelByName(db: Reader, kind: LabelKind, name: string): Label | undefined {
  return db.get<Label>(`${tables[kind].select} WHERE l.name = ?`, name)
}

/** All labels of a kind, by sortOrder, then name. */
export function listLabels(db: Reader, kind: LabelKind): Label[] {
  return db.all<Label>(`${tables[kind].select} ORDER BY l.sortOrder, l.name, l.id`)
}
