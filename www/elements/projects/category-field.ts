import type { Label } from '../../../lib/model/project.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'

/** Returns a field that chooses at most one category. Its value is the id, or empty. */
export function categoryField({
  form,
  categories,
  chosen
}: {
  form: string
  categories: readonly Label[]
  chosen: string | null
}): Template {
  const id = `${form}-categoryId`
  return html`
    <div class="field">
      <label for="${id}">${t('Category')}</label>
      <select id="${id}" name="categoryId">
        <option value="" .selected="${chosen === null}">${t('No category')}</option>
        ${categories.map(
          ({ id: value, name }) => html`
          <option value="${value}" .selected="${value === chosen}">${name}</option>`
        )}
      </select>
    </div>`
}
