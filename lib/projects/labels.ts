import { type Clock, instantOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { Refusal, notFound } from '../base/errors.js'
import type { ProjectScope } from '../model/access.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { labelColors, type Label, type LabelColor, type LabelKind } from '../model/label.js'
import { checkSeen, type Seen } from '../model/seen.js'
import type { Reader, Store, Transaction } from '../store/database.js'
import {
  deleteLabel,
  findLabel,
  findLabelByName,
  insertLabel,
  listLabels,
  updateLabel
} from '../store/tables/projects.js'

/** The fields of a label that a client can set. */
export interface LabelFields {
  name?: string | undefined
  /** Null, as if it were absent: the first unused colour of a new label, the present one of another. */
  color?: LabelColor | null | undefined
  sortOrder?: number | undefined
}

/** Categories or tags (§2.6). Both have the same rules and different tables. */
export interface Labels {
  /** Returns the labels ordered by `sortOrder`, then by name; with a scope, those of its projects. */
  list(scope?: ProjectScope): Label[]
  /** The default colour is the first unused one. Refuses: 409 `name_taken`. */
  create(fields: LabelFields & { name: string }, actor: Actor): Promise<Label>
  /** Refuses: 404, 409 `name_taken`, 412 `changed_since`. */
  update(id: string, fields: LabelFields & Seen, actor: Actor): Promise<Label>
  /** Removes a label. Resolves with the number of projects that had it. Refuses: 404. */
  remove(id: string, actor: Actor): Promise<number>
}

interface Needs {
  store: Store
  clock: Clock
  ids: Pick<Ids, 'id'>
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

/** Creates the labels of one kind. */
export function createLabels(kind: LabelKind, { store, clock, ids, audit }: Needs): Labels {
  const noun = kind === 'category' ? 'Category' : 'Tag'

  function existing(db: Reader, id: string): Label {
    const label = findLabel(db, kind, id)
    if (label === undefined) throw notFound(noun, id)
    return label
  }

  function checkName(db: Reader, name: string, ownId?: string): void {
    const other = findLabelByName(db, kind, name)
    if (other === undefined || other.id === ownId) return
    const sentence = `The name "${name}" is already used: names must be unique, ignoring case`
    throw new Refusal('conflict', 'name_taken', sentence, {
      field: 'name',
      other: { kind, id: other.id, name: other.name }
    })
  }

  return {
    list: scope => listLabels(store, kind, scope),

    create: (fields, actor) =>
      store.write(tx => {
        checkName(tx, fields.name)
        const label: Label = {
          id: ids.id(kind === 'category' ? 'cat_' : 'tag_'),
          name: fields.name,
          color: fields.color ?? unusedColor(listLabels(tx, kind)),
          sortOrder: fields.sortOrder ?? 0,
          projectCount: 0,
          createdAt: instantOf(clock),
          updatedAt: instantOf(clock)
        }
        insertLabel(tx, kind, label)
        audit.within(tx, { action: `${kind}.create`, actor, target: label.id, detail: label.name })
        return label
      }),

    update: (id, fields, actor) =>
      store.write(tx => {
        const before = existing(tx, id)
        checkSeen(fields, before.updatedAt, `The ${kind}`)
        if (fields.name !== undefined) checkName(tx, fields.name, id)
        updateLabel(tx, kind, {
          id,
          name: fields.name ?? before.name,
          color: fields.color ?? before.color,
          sortOrder: fields.sortOrder ?? before.sortOrder,
          updatedAt: instantOf(clock)
        })
        audit.within(tx, { action: `${kind}.update`, actor, target: id, detail: fields.name ?? before.name })
        return existing(tx, id)
      }),

    remove: (id, actor) =>
      store.write(tx => {
        const { name } = existing(tx, id)
        const projects = deleteLabel(tx, kind, id)
        audit.within(tx, { action: `${kind}.delete`, actor, target: id, detail: name })
        return projects
      })
  }
}

function unusedColor(labels: Label[]): LabelColor {
  return labelColors.find(color => labels.every(label => label.color !== color)) ?? labelColors[0]
}
