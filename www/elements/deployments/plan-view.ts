import type { PlanAnswer } from '../../../lib/model/plan.js'
import { html, icon } from '../../dom/html.js'
import type { Template } from '../../dom/html.js'
import { serverWords, twoLines } from '../../words/errors.js'
import { countWords, numberWords, t } from '../../words/t.js'

/* What a deployment would do, as the server found it on the disk. */

/** Maximum number of paths that are shown. */
const most = 200
/** Number of edited files that are named. */
const named = 5

/** Returns the view of a plan. */
export function planView({ counts, paths, checks, baseline }: PlanAnswer): Template {
  const { added, changed, timeOnly, unchanged, pruned, conflicts } = counts
  const lines = [
    ...paths.added.map(path => `+ ${path}`),
    ...paths.changed.map(path => `~ ${path}`),
    ...paths.pruned.map(path => `- ${path}`)
  ]
  const edited = paths.drifted.filter(({ overwritten }) => overwritten).map(({ path }) => path)
  const problems = [
    ...paths.conflicts.map(({ message }) => message),
    ...checks.filter(({ ok }) => !ok).map(({ message = '' }) => message)
  ]
  const total = added + changed + pruned
  const values = { added: numberWords(added), changed: numberWords(changed), same: numberWords(timeOnly + unchanged) }
  return html`
    <div class="changes">
      <p>
        ${t('{added} added, {changed} changed, {same} as they are', values)}${pruned === 0 ? null : t(', {removed} removed', { removed: numberWords(pruned) })}
      </p>
      ${
        edited.length === 0
          ? null
          : html`
          <p class="note">
            ${icon('warning')}<span>${t('{files} edited on the server would be replaced: {names}', { files: countWords(edited.length, 'file'), names: edited.slice(0, named).join(', ') })}</span>
          </p>`
      }
      ${problems.slice(0, named).map(message => html`<p class="error-line">${icon('warning')}<span>${twoLines(serverWords(message))}</span></p>`)}
      ${conflicts > named ? html`<p class="muted small">${t('and {count} more', { count: numberWords(conflicts - named) })}</p>` : null}
      ${baseline === 'building' ? html`<p class="muted small">${t('The list of the files is being made.')}</p>` : null}
      ${lines.length === 0 ? null : html`<ul tabindex="0" aria-label="${t('Changed files')}">${lines.slice(0, most).map(line => html`<li>${line}</li>`)}</ul>`}
      ${total > most ? html`<p class="muted small">${t('and {count} more', { count: numberWords(total - most) })}</p>` : null}
    </div>`
}
