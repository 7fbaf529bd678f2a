import type { ImportBrings, ImportResult, PartResult } from '../../../lib/model/transfer.js'
import { html, icon, type Template } from '../../dom/html.js'
import { fieldLabels, numberWords, t, serverWords } from '../../words/t.js'
import { maskWords } from '../base/words.js'

/* The result of an import, or of its preview, part by part. Pure. */

/** One part of a package, and the result for its records. */
export interface ImportPart extends PartResult {
  /** English; passed to t(). */
  words: string
}

const partRows = [
  { key: 'settings', words: 'Settings' },
  { key: 'categories', words: 'Categories' },
  { key: 'tags', words: 'Tags' },
  { key: 'projects', words: 'Projects' },
  { key: 'logSources', words: 'Log files' },
  { key: 'notificationTargets', words: 'Notification targets' },
  { key: 'deployments', words: 'Deployments' },
  { key: 'artifacts', words: 'Archives deployed' }
] as const

/** Returns the parts that the package contains. */
export function partsOf(result: ImportResult): ImportPart[] {
  return partRows
    .map(({ key, words }) => ({
      words,
      created: result[key].created,
      replaced: result[key].replaced,
      skipped: result[key].skipped
    }))
    .filter(({ created, replaced, skipped }) => created.length + replaced.length + skipped.length > 0)
}

/** Returns a text with visible replacements for characters that would hide or reorder parts of it. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    character => {
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
    }
  )
}

/** Counts the records by result. Archives are files, not records, and are not counted. */
export function countRecords(result: ImportResult): { created: number; replaced: number; skipped: number } {
  const counts = { created: 0, replaced: 0, skipped: 0 }
  for (const { key } of partRows) {
    if (key === 'artifacts') continue
    counts.created += result[key].created.length
    counts.replaced += result[key].replaced.length
    counts.skipped += result[key].skipped.length
  }
  return counts
}

/** Maximum number of ids shown for each part; the others are counted. */
const shownIds = 200

/** Returns the result of an import or of its preview: a row for each part of the package, then further remarks. */
export function importResult(result: ImportResult, isDone: boolean): Template {
  return html`
    <table class="number">
      <thead>
        <tr>
          <th scope="col">${t('Part')}</th>
          <th scope="col">${isDone ? t('Created') : t('To create')}</th>
          <th scope="col">${isDone ? t('Replaced') : t('To replace')}</th>
          <th scope="col">${isDone ? t('Unchanged') : t('To keep')}</th>
        </tr>
      </thead>
      <tbody>${partsOf(result).map(partRow)}</tbody>
    </table>
    ${isDone ? null : bringsOf(result.brings)}
    ${notesOf(result)}`
}

function partRow({ words, created, replaced, skipped }: ImportPart): Template {
  const cell = (ids: string[], kind: string): Template =>
    html`<td class="${ids.length === 0 ? 'none' : kind}">${ids.length === 0 ? '–' : numberWords(ids.length)}</td>`
  const ids = [...created, ...replaced, ...skipped]
  return html`
    <tr>
      <td>
        <details>
          <summary>${t(words)}</summary>
          <code>${ids.slice(0, shownIds).join('\n')}${ids.length > shownIds ? `\n+ ${numberWords(ids.length - shownIds)}` : ''}</code>
        </details>
      </td>
      ${cell(created, 'created')}${cell(replaced, 'replaced')}${cell(skipped, 'skipped')}
    </tr>`
}

/** Returns what must be reviewed before an import: where files go, what runs, and which settings change. */
function bringsOf({
  settings,
  projects,
  deploymentScripts,
  logSources,
  notificationTargets
}: ImportBrings): Template | null {
  const lists = [settings, projects, deploymentScripts, logSources, notificationTargets]
  if (lists.every(list => list.length === 0)) return null
  return html`
    <section class="brings">
      <h4>${t('Included in the package')}</h4>
      ${projects.map(
        project => html`
        <dl>
          <dt>${project.name} <code class="muted">${project.id}</code></dt>
          <dd>${t('Deploys to {path}', { path: project.deployPath })}</dd>
          ${project.runAs === null ? null : html`<dd>${t('Run as user')}: <code>${project.runAs}</code></dd>`}
          ${project.allowClientScripts === true ? html`<dd>${t('Runs scripts of a push')}</dd>` : null}
          ${project.allowedEnv.length === 0 ? null : html`<dd>${t('Allowed push variables')}: <code>${project.allowedEnv.join(' ')}</code></dd>`}
          ${furtherTexts(project).map(([field, value]) => html`<dd>${t(fieldLabels[field] ?? field)}: <code>${value}</code></dd>`)}
          ${project.variables.map(({ name, value }) => html`<dd><code>${name} = ${value === null ? t('secret, value to be set') : visible(value)}</code></dd>`)}
          ${scriptOf(t('Pre-deploy script'), project.preDeployScript)}
          ${scriptOf(t('Post-deploy script'), project.postDeployScript)}
          ${project.others.map(({ key, value }) =>
            value.includes('\n') || key.endsWith('.command')
              ? scriptOf(key, value)
              : html`<dd><code>${visible(key)} = ${visible(value)}</code></dd>`
          )}
        </dl>`
      )}
      ${
        deploymentScripts.length === 0
          ? null
          : html`
        <dl>
          <dt>${t('Scripts of deployments, which a rollback may run')}</dt>
          ${deploymentScripts.map(({ projectId, step, script }) => scriptOf(`${projectId} · ${step}`, script))}
        </dl>`
      }
      ${
        settings.length === 0
          ? null
          : html`
        <dl>
          <dt>${t('Settings')}</dt>
          ${settings.map(({ key, value }) => html`<dd><code>${key} = ${value === null ? maskWords('') : visible(value)}</code></dd>`)}
        </dl>`
      }
      ${
        logSources.length === 0
          ? null
          : html`
        <dl>
          <dt>${t('Log files')}</dt>
          ${logSources.map(({ filePath }) => html`<dd><code>${filePath}</code></dd>`)}
        </dl>`
      }
      ${
        notificationTargets.length === 0
          ? null
          : html`
        <dl>
          <dt>${t('Notification targets')}</dt>
          ${notificationTargets.map(({ name, address }) => html`<dd>${visible(name)} <code>${address}</code></dd>`)}
        </dl>`
      }
    </section>`
}

/** Fields with a place of their own in a project of a package. */
const placed: ReadonlySet<string> = new Set([
  'id',
  'name',
  'deployPath',
  'runAs',
  'preDeployScript',
  'postDeployScript'
])

/** Returns the other texts of a project of a package: what a later field says is reviewed, too. */
function furtherTexts(project: ImportBrings['projects'][number]): Array<[field: string, value: string]> {
  return Object.entries(project).flatMap(([field, value]) =>
    typeof value === 'string' && !placed.has(field) ? [[field, value] as [string, string]] : []
  )
}

function scriptOf(title: string, script: string): Template | null {
  return script.trim() === ''
    ? null
    : html`<dd>${title}<pre tabindex="0" aria-label="${title}">${visible(script)}</pre></dd>`
}

function notesOf({ artifacts, notes }: ImportResult): Template | null {
  if (artifacts.failed.length + notes.length === 0) return null
  return html`
    <ul class="notes">
      ${artifacts.failed.map(
        ({ id, error }) => html`
        <li class="failed">${icon('failed')}<span class="anywhere">${t('Archive of {id} not deployed: {error}', { id, error: serverWords(error) })}</span></li>`
      )}
      ${notes.map(note => html`<li>${icon('warning')}<span class="anywhere">${note}</span></li>`)}
    </ul>`
}
