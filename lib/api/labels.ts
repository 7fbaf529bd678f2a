import { expectedTags } from '../http/core/reply.js'
import { json } from '../http/core/route.js'
import type { ProjectScope } from '../model/access.js'
import type { Actor } from '../model/audit.js'
import { labelColors, type Label, type LabelKind } from '../model/label.js'
import type { LabelFields } from '../projects/labels.js'
import { integer, name, nullable, oneOf, optional, readFields } from '../base/fields.js'
import { type Handler, param } from './route.js'

/** Fields of a change of a category or a tag. */
export const labelFields = {
  name: optional(name),
  color: nullable(oneOf(labelColors)),
  /** Position in lists: smaller numbers come first. */
  sortOrder: optional(integer(-1_000_000, 1_000_000))
}
/** Fields of a new category or tag. */
export const newLabelFields = { ...labelFields, name }

/** Dependencies of the handlers of one kind of labels. */
export interface LabelsNeeds {
  list(scope: ProjectScope): Label[]
  create(fields: LabelFields & { name: string }, actor: Actor): Promise<Label>
  update(id: string, fields: LabelFields, actor: Actor): Promise<Label>
  remove(id: string, actor: Actor): Promise<number>
}

/** Handlers of categories or tags (§4.10). A response contains the label in a field named after its kind. */
export function labelHandlers(kind: LabelKind, labels: LabelsNeeds) {
  return {
    list: ({ actor }) => json(labels.list(actor.projects)),

    create: async request => {
      const fields = readFields(await request.json(), newLabelFields)
      return json({ success: true, [kind]: await labels.create(fields, request.actor) })
    },

    update: async request => {
      const fields = { ...readFields(await request.json(), labelFields), seen: expectedTags(request.headers) }
      return json({ success: true, [kind]: await labels.update(param(request, 'id'), fields, request.actor) })
    },

    remove: async request => {
      const projects = await labels.remove(param(request, 'id'), request.actor)
      const counted = kind === 'category' ? { movedProjects: projects } : { detachedProjects: projects }
      return json({ success: true, message: `The ${kind} was deleted`, ...counted })
    }
  } satisfies Record<string, Handler>
}
