import type { PlanPaths, RollbackPlan } from '../../../lib/model/plan.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { serverWords, twoLines } from '../../words/errors.js'

/* What a rollback or an undo would do, as the server found it on the disk. */

/** Maximum number of paths that are shown. */
const most = 200

/** Returns the view of a plan; null is a plan that is not known yet. `force` says whether it takes back edited files. */
export function rollbackPlanView(plan: RollbackPlan | null, force: boolean): Template {
  if (plan === null) return html`<p class="muted" role="status">${t('Comparing with the files on the server…')}</p>`
  if (plan.problem !== null) return problemView(plan.problem.message)
  const isExact = plan.mode === 'exact'
  const lines = linesOf(plan.paths, isExact)
  const { added, changed, timeOnly, pruned } = plan.counts
  const total = added + changed + pruned + (isExact ? timeOnly : 0)
  return html`
    <div class="changes">
      <p>${summaryOf(plan)}</p>
      ${keptView(plan, force)}
      ${foreignView(plan)}
      ${lines.length === 0 ? null : html`<ul tabindex="0" aria-label="${t('Changed files')}">${lines.slice(0, most).map(line => html`<li>${line}</li>`)}</ul>`}
      ${total > most ? html`<p class="muted small">${t('and {count} more', { count: numberWords(total - most) })}</p>` : null}
      ${plan.checks.filter(({ ok }) => !ok).map(({ message = '' }) => problemView(message))}
    </div>`
}

function summaryOf({ mode, counts, over }: RollbackPlan): string {
  const { added, changed, timeOnly, pruned, kept } = counts
  if (mode === 'exact') {
    const files = countWords(added + changed + timeOnly, 'file')
    return t('{deployments} undone: {files} brought back, {removed} removed.', {
      deployments: countWords(over, 'deployment'),
      files,
      removed: numberWords(pruned)
    })
  }
  if (added + changed === 0) return t('No file differs from the files on the server.')
  const values = { files: countWords(changed, 'file'), added: numberWords(added), left: numberWords(kept) }
  return kept === 0
    ? t('{files} replaced, {added} restored.', values)
    : t('{files} replaced, {added} restored, {left} newer kept.', values)
}

/** Edited files stay in an exact rollback that is not forced, and are replaced otherwise. */
function keptView({ mode, counts, paths }: RollbackPlan, force: boolean): Template | null {
  const isKept = mode === 'exact' && !force
  const names = paths.drifted.filter(({ overwritten }) => isKept || overwritten).map(({ path }) => path)
  if (counts.drifted === 0 || names.length === 0) return null
  const values = { files: countWords(counts.drifted, 'file'), names: names.slice(0, 5).join(', ') }
  return html`
    <p class="warning">
      ${icon('warning')}<span>${isKept ? t('{files} edited on the server would stay: {names}', values) : t('{files} edited on the server would be replaced: {names}', values)}</span>
    </p>`
}

/** An older server does not say. */
function foreignView({ counts: { foreign = 0 }, paths }: RollbackPlan): Template | null {
  if (foreign === 0) return null
  const values = { files: countWords(foreign, 'file'), names: paths.foreign.slice(0, 5).join(', ') }
  return html`
    <p class="warning">
      ${icon('warning')}<span>${t('{files} that svc did not put there would be replaced: {names}', values)}</span>
    </p>`
}

function linesOf({ added, changed, timeOnly, pruned }: PlanPaths, isExact: boolean): string[] {
  return [
    ...added.map(path => `+ ${path}`),
    ...[...changed, ...(isExact ? timeOnly : [])].map(path => `~ ${path}`),
    ...pruned.map(path => `- ${path}`)
  ]
}

function problemView(message: string): Template {
  return html`<p class="error-line">${icon('warning')}<span>${twoLines(serverWords(message))}</span></p>`
}
