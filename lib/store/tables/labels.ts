import type { ProjectScope } from '../../model/access.js'
import { labelColors, type Label, type LabelKind } from '../../model/label.js'
import type { Reader, Transaction, Value } from '../database.js'
import { choice, number, text, type Columns } from './columns.js'
import { among, where } from './conditions.js'
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
    name: 'categories',
    carriers: { table: 'projects', condition: 'p.categoryId = l.id' },
    project: 'id'
  },
  tag: {
    ...tableOf('tags', columns, ['projectCount']),
    name: 'tags',
    carriers: { table: 'projectTags', condition: 'p.tagId = l.id' },
    project: 'projectId'
  }
}

/** Returns the labels that a condition selects. `scope`: only these projects are counted. */
function select(db: Reader, kind: LabelKind, { rest, values = [], scope }: Selection): Label[] {
  const { read, name, carriers, project } = tables[kind]
  const counted = among({ conditions: [carriers.condition], values: [] }, `p.${project}`, scope)
  const count = `SELECT count(*) FROM ${carriers.table} p ${where(counted.conditions)}`
  return db.all(`SELECT l.*, (${count}) AS projectCount FROM ${name} l ${rest}`, ...counted.values, ...values).map(read)
}

interface Selection {
  rest: string
  values?: readonly Value[]
  scope?: ProjectScope
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
  return select(db, kind, { rest: 'WHERE l.id = ?', values: [id] })[0]
}

/** Returns one label by its name, regardless of case (ASCII only, like the unique index). */
export function findLabelByName(db: Reader, kind: LabelKind, name: string): Label | undefined {
  return select(db, kind, { rest: 'WHERE l.name = ?', values: [name] })[0]
}

/**
 * Returns the labels of a kind, sorted by sortOrder, then by name. With a scope, only its projects are counted, and labels that
 * none of them has are left out: their names say what else there is.
 */
export function listLabels(db: Reader, kind: LabelKind, scope?: ProjectScope): Label[] {
  const labels = select(db, kind, { rest: 'ORDER BY l.sortOrder, l.name, l.id', scope })
  return scope == null ? labels : labels.filter(({ projectCount }) => projectCount > 0)
}
