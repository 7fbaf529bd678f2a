/* What a deployment would do to the target, before its bytes are sent. */
import { isRefused, formatBytes } from '../../shared/api.js'
import type { PlanAnswer, PlannedScript, PlanPaths, RollbackPlan } from '../../../lib/model/plan.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, numberWords, t, serverWords, twoLines } from '../../words/t.js'

/** Maximum number of paths of each kind that are shown. */
const most = 100

/** Returns the view of a plan. Styles: the element that shows it. */
export function planView(plan: PlanAnswer): Template {
  const { counts, paths, checks, bytes, scripts, queue } = plan
  const replaced = paths.drifted.filter(({ overwritten }) => overwritten).map(({ path }) => path)
  const failed = checks.filter(({ ok }) => !ok)
  const failedCodes = new Set(failed.map(({ code }) => code))
  const conflicts = paths.conflicts.filter(({ code }) => !failedCodes.has(code)).slice(0, most)
  return html`
    <div class="plan">
      <p class="number" role="status">${summaryOf(plan)}</p>
      ${kindView('+', t('{files} added', { files: countWords(counts.added, 'file') }), { paths: paths.added, count: counts.added })}
      ${kindView('~', t('{files} changed', { files: countWords(counts.changed, 'file') }), { paths: paths.changed, count: counts.changed })}
      ${kindView('-', t('{files} removed', { files: countWords(counts.pruned, 'file') }), { paths: paths.pruned, count: counts.pruned })}
      ${kindView('-', t('{files} of these not put there by svc', { files: countWords(counts.unowned ?? 0, 'file') }), { paths: sized(paths.unowned), count: counts.unowned ?? 0 })}
      ${kindView('.', t('{files} not put there by svc stay, because the policy protects them', { files: countWords(counts.protected ?? 0, 'file') }), { paths: sized(paths.protected), count: counts.protected ?? 0 })}
      ${kindView('!', t('{files} edited on the server would be replaced', { files: countWords(replaced.length, 'file') }), { paths: replaced, count: replaced.length })}
      ${kindView('!', t('{files} that svc did not put there would be replaced', { files: countWords(counts.foreign, 'file') }), { paths: paths.foreign, count: counts.foreign })}
      ${[...conflicts, ...failed].map(({ message = '' }) => html`<p class="error-line">${icon('warning')}<span>${twoLines(serverWords(message))}</span></p>`)}
      ${checks.filter(({ ok, message }) => ok && message !== undefined).map(({ message = '' }) => html`<p class="muted small">${twoLines(serverWords(message))}</p>`)}
      ${isRefused(plan) ? html`<p class="muted small">${t('The server would refuse this deployment.')}</p>` : null}
      ${plan.partial ? html`<p class="muted small">${t('The comparison took too long: the counts and lists are incomplete.')}</p>` : null}
      <p class="muted small">${[spaceWords(bytes), ...scripts.map(scriptWords), ...queueWords(queue)].join(' · ')}</p>
    </div>`
}

function summaryOf({ counts, live }: PlanAnswer): string {
  const { added, changed, timeOnly, unchanged, kept, pruned } = counts
  const parts = [
    ...(added > 0 ? [t('{count} added', { count: numberWords(added) })] : []),
    ...(changed > 0 ? [t('{count} changed', { count: numberWords(changed) })] : []),
    ...(pruned > 0 ? [t('{count} removed', { count: numberWords(pruned) })] : []),
    ...(timeOnly + unchanged > 0 ? [t('{count} as they are', { count: numberWords(timeOnly + unchanged) })] : []),
    ...(kept > 0 ? [t('{count} not in it, kept', { count: numberWords(kept) })] : [])
  ]
  if (live === null && unchanged + timeOnly + changed === 0)
    return t('The first deployment: {files} added.', { files: countWords(added, 'file') })
  if (added + changed + pruned === 0) return t('No file changes.')
  return parts.join(' · ')
}

/** An older server does not say. */
function sized(files: PlanPaths['unowned'] = []): string[] {
  return files.map(({ path, size }) => `${path} (${formatBytes(size)})`)
}

function kindView(
  mark: string,
  words: string,
  { paths, count }: { paths: readonly string[]; count: number }
): Template | null {
  if (count === 0) return null
  const shown = paths.slice(0, most)
  return html`
    <details class="${mark === '!' ? 'edited' : ''}">
      <summary>${icon('next')}<span class="mark" aria-hidden="true">${mark}</span> ${words}</summary>
      <ul tabindex="0" aria-label="${words}">${shown.map(path => html`<li translate="no">${path}</li>`)}</ul>
      ${count > shown.length ? html`<p class="muted small">${t('and {count} more', { count: numberWords(count - shown.length) })}</p>` : null}
    </details>`
}

function spaceWords({ diskNeeded, diskFree }: PlanAnswer['bytes']): string {
  const needed = formatBytes(diskNeeded)
  if (diskFree === null) return t('{size} needed', { size: needed })
  return t('{size} needed, {free} free', { size: needed, free: formatBytes(diskFree) })
}

function scriptWords({ step, async }: PlannedScript): string {
  if (step === 'onFailure') return t('the on-failure script runs if the deployment fails')
  const words = step === 'preDeploy' ? t('the pre-deploy script runs') : t('the post-deploy script runs')
  return async ? t('{script} in the background', { script: words }) : words
}

function queueWords({ running, waiting }: PlanAnswer['queue']): string[] {
  if (running === null) return []
  return [t('queued after {deployments}', { deployments: countWords(1 + waiting, 'deployment') })]
}

/* What a rollback or an undo would do, as the server found it on the disk. */

/** Maximum number of paths that are shown. */
const mostLines = 200

/**
 * Returns the view of a plan; null is a plan that is not known yet. `force` says whether it takes back edited files, `isNew`
 * whether the release is new there.
 */
export function rollbackPlanView(plan: RollbackPlan | null, force: boolean, isNew = false): Template {
  if (plan === null) return html`<p class="muted" role="status">${t('Comparing with the files on the server…')}</p>`
  if (plan.problem !== null) return problemView(plan.problem.message)
  const isExact = plan.mode === 'exact'
  const lines = linesOf(plan.paths, isExact)
  const { added, changed, timeOnly, pruned } = plan.counts
  const total = added + changed + pruned + (isExact ? timeOnly : 0)
  return html`
    <div class="changes">
      <p>${rollbackSummaryOf(plan, isNew)}</p>
      ${keptView(plan, force)}
      ${foreignView(plan)}
      ${lines.length === 0 ? null : html`<ul tabindex="0" aria-label="${t('Changed files')}">${lines.slice(0, mostLines).map(line => html`<li>${line}</li>`)}</ul>`}
      ${total > mostLines ? html`<p class="muted small">${t('and {count} more', { count: numberWords(total - mostLines) })}</p>` : null}
      ${plan.checks.filter(({ ok }) => !ok).map(({ message = '' }) => problemView(message))}
    </div>`
}

function rollbackSummaryOf({ mode, counts, over }: RollbackPlan, isNew: boolean): string {
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
  if (isNew) return t('{files} replaced, {added} added.', values)
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
