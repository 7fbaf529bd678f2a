import type { Label, ShownProject as Project } from '../../../lib/model/project.js'
import { html, type Template } from '../../dom/html.js'

/** Labels by id. */
export type LabelTable = ReadonlyMap<string, Label>

/** Returns a project's category and its tags. If there are more than `most`, the rest is shown as a count. */
export function labelList(
  { categoryId, tagIds }: Pick<Project, 'categoryId' | 'tagIds'>,
  labels: LabelTable,
  most = Infinity
): Template {
  const category = categoryId === null ? undefined : labels.get(categoryId)
  const all = [
    ...(category === undefined ? [] : [{ label: category, kind: 'category' }]),
    ...tagIds.flatMap(id => labels.get(id) ?? []).map(label => ({ label, kind: 'tag' }))
  ]
  const more = all.slice(most)
  return html`
    ${all.slice(0, most).map(
      ({ label, kind }) => html`
      <svc-label kind="${kind}" name="${label.name}" color="${label.color}"></svc-label>`
    )}
    ${
      more.length === 0
        ? null
        : html`<span class="muted small" title="${more.map(({ label }) => label.name).join(', ')}">+${more.length}</span>`
    }`
}
