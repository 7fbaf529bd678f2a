import { contentsOf, isOtherArchive, isZipName } from '../../archive/contents.js'
import type { ContentEntry, Contents, UploadLimits } from '../../archive/contents.js'
import { gather, nameOf } from '../../archive/gather.js'
import type { Found, Gathered } from '../../archive/gather.js'
import { readZip } from '../../archive/read-zip.js'
import { treeOfFiles, treeOfZip } from '../../archive/tree.js'
import type { PlanAnswer } from '../../../lib/model/plan.js'
import { planView } from './plan-view.js'
import type { PackEntry } from '../../archive/zip.js'
import type { Project } from '../../../lib/model/project.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon } from '../../dom/html.js'
import type { Template } from '../../dom/html.js'
import { countWords, numberWords, t } from '../../words/t.js'
import { field } from '../base/field.js'
import { question } from '../base/question.js'
import { formatBytes } from '../../shared/size.js'
import { errorWords } from '../../words/errors.js'

/** The reader's choice: one zip, or files and folders to pack here. */
export type Chosen = { kind: 'zip'; file: File } | { kind: 'files'; found: readonly Found[] }

/** The reader has reviewed the contents and confirms the deployment. */
export class PackWantedEvent extends Event {
  /** The entries to pack, or null if the zip is sent unchanged. */
  readonly entries: readonly PackEntry[] | null
  /** Total size of the files in bytes. */
  readonly bytes: number
  /** Empty if none was typed. */
  readonly message: string
  /** The plan that was shown; null: none. */
  readonly planId: string | null

  constructor(wanted: { entries: readonly PackEntry[] | null; bytes: number; message: string; planId: string | null }) {
    super('packwanted', { bubbles: true })
    this.entries = wanted.entries
    this.bytes = wanted.bytes
    this.message = wanted.message
    this.planId = wanted.planId
  }
}

/** The reader cancelled. */
export class PackCancelEvent extends Event {
  constructor() {
    super('packcancel', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    packwanted: PackWantedEvent
    packcancel: PackCancelEvent
  }
}

/** Maximum length of a message on the server (lib/model/deployment.ts). */
const maxMessageLength = 500
/** Number of excluded names to show. */
const shownNames = 5
/** Progress is shown at most this often. */
const tellEveryMs = 100
/** A long count is updated after this many entries. */
const tellEvery = 250

/** The contents of the choice. */
interface Seen extends Contents {
  /** Null if the zip is sent unchanged. */
  entries: readonly PackEntry[] | null
}

/**
 * The confirmation before a deployment from the panel: its contents, its target, what the rules exclude, and a message.
 * Properties: `chosen`, `project`, `limits` (null if not known); `planOf`, which sends a tree. Events: `packwanted`, `packcancel`.
 */
export class SvcPack extends SvcElement {
  static override sheet = css`
    svc-pack {
      display: block;

      .about { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 8px 16px; margin: 0; }
      .about dt { color: var(--muted); }
      .about dd { overflow-wrap: anywhere; }
      .about li { display: flex; justify-content: space-between; gap: 12px; font-size: var(--size-13); }
      .about li code { direction: rtl; text-align: left; unicode-bidi: plaintext; }
      .about li span { color: var(--muted); white-space: nowrap; }
      .notes { display: grid; gap: 8px; }
      .notes:empty { display: none; }
      .note { display: flex; gap: 8px; padding: 8px 12px; border-radius: var(--radius); background: var(--warning-quiet); color: var(--warning); font-size: var(--size-13); overflow-wrap: anywhere; }
      .note .icon { margin-top: 2px; }
      .left-out { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 8px; overflow-wrap: anywhere; }
      .left-out button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
      progress { width: 100%; }
      .changes { display: grid; gap: 8px; min-width: 0; }
      .changes ul { max-height: 160px; overflow: auto; font: var(--size-12) / 1.6 var(--mono); overflow-wrap: anywhere; }
      @media (max-width: 479px) {
        .about { grid-template-columns: minmax(0, 1fr); gap: 0; }
        .about dd + dt { margin-top: 8px; }
      }
    }
  `

  project!: Project
  limits: UploadLimits | null = null
  planOf!: (tree: Blob, signal: AbortSignal) => Promise<PlanAnswer>
  chosen!: Chosen
  #plan: PlanAnswer | null = null
  /** Why there is no plan. */
  #planProblem: string | null = null
  #readBytes = 0
  #seen: Seen | null = null
  #leftOut: readonly string[] = []
  #neverPacked: readonly string[] = []
  #count = 0
  #isWhole = false
  #problem: string | null = null
  #looking = new AbortController()
  #hasToFocus = false

  protected override changed(name: string): void {
    if (name === 'chosen') void this.#look()
  }

  protected override connected(): void {
    void this.#look()
  }

  protected override view(): Template {
    const seen = this.#seen
    const refusal = this.#limitRefusal() ?? this.#problem ?? this.#refusal(seen)
    return question({
      asked: html`
        <dl class="about">
          <dt>${t('Project')}</dt>
          <dd><b translate="no">${this.project.name}</b> <span class="muted" translate="no">${this.project.env}</span></dd>
          <dt>${t('Directory')}</dt>
          <dd><code>${this.project.deployPath}</code></dd>
          <dt>${t('Contents')}</dt>
          <dd><span translate="no">${this.#name}</span><br><span class="number" role="status">${this.#problem === null ? this.#facts(seen) : null}</span></dd>
          ${
            seen === null || seen.files < 2
              ? null
              : html`
              <dt>${seen.files > seen.largest.length ? t('Largest files') : t('Files')}</dt>
              <dd><ul>${seen.largest.map(({ path, bytes }) => html`<li><code class="cut" title="${path}">${path}</code><span class="number">${formatBytes(bytes)}</span></li>`)}</ul></dd>`
          }
        </dl>
        <div class="notes">${this.#notes(seen)}${this.#leftOutLine()}</div>
        ${seen === null || seen.files === 0 ? null : this.#planned(seen)}
        ${field({
          form: 'pack',
          name: 'message',
          label: t('Message (optional)'),
          placeholder: this.#name,
          hint: t('Shown in the history. Files with the same name are replaced; other files stay.')
        })}`,
      submission: { problem: refusal, isBusy: seen === null || refusal !== null },
      answer: t('Deploy'),
      kind: 'primary',
      onAnswer: event => this.#want(event),
      onRefusal: () => this.dispatchEvent(new PackCancelEvent())
    })
  }

  protected override rendered(): void {
    this.querySelector('input')?.setAttribute('maxlength', String(maxMessageLength))
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    const button =
      this.querySelector<HTMLElement>('button.primary:enabled') ??
      this.querySelector<HTMLElement>('.actions.end button')
    button?.focus()
  }

  get #name(): string {
    return this.chosen.kind === 'zip' ? this.chosen.file.name : nameOf(this.chosen.found)
  }

  #facts(seen: Seen | null): string {
    if (seen === null) return t('Reading: {files}', { files: countWords(this.#count, 'file') })
    const facts = `${countWords(seen.files, 'file')}, ${formatBytes(seen.bytes)}`
    if (this.chosen.kind === 'files') return facts
    return t('{facts}; {size} as a zip', { facts, size: formatBytes(this.chosen.file.size) })
  }

  /** The size of a zip is known at once; files are measured when they are packed. */
  #limitRefusal(): string | null {
    const { uploadBytes = null } = this.limits ?? {}
    const bytes = this.chosen.kind === 'zip' ? this.chosen.file.size : 0
    return uploadBytes !== null && bytes > uploadBytes ? tooLarge(bytes, uploadBytes) : null
  }

  /** Returns the reason why it cannot be deployed if that is known before sending. */
  #refusal(seen: Seen | null): string | null {
    const { extractedBytes = null } = this.limits ?? {}
    if (seen === null) return null
    if (seen.files === 0) return t('It contains no files to deploy.')
    if (extractedBytes !== null && seen.bytes > extractedBytes) {
      const sizes = { size: formatBytes(seen.bytes), limit: formatBytes(extractedBytes) }
      return t('Uncompressed size {size} exceeds the limit of {limit} (setting max_extracted_size).', sizes)
    }
    return null
  }

  #notes(seen: Seen | null): Template[] {
    if (seen === null || seen.files === 0) return []
    const notes: string[] = []
    const { deployPath } = this.project
    if (this.chosen.kind === 'zip') {
      if (seen.topFolder !== null) {
        const places = { folder: seen.topFolder, path: `${deployPath.replace(/\/$/, '')}/${seen.topFolder}` }
        notes.push(
          t(
            'The zip contains a single folder, “{folder}”: its files will be written to {path}. To write them to the project directory itself, drop the folder instead of the zip.',
            places
          )
        )
      }
      if (seen.unusual.length > 0)
        notes.push(t('It contains files that svc push excludes: {list}', { list: listWords(seen.unusual) }))
    } else {
      const archives = (seen.entries ?? [])
        .map(({ path }) => path)
        .filter(path => !path.includes('/') && (isOtherArchive(path) || isZipName(path)))
      if (archives.length > 0)
        notes.push(
          t('Deployed as is, not extracted: {list}. A zip is extracted only if it is dropped alone.', {
            list: listWords(archives)
          })
        )
    }
    return notes.map(words => html`<p class="note">${icon('warning')}<span>${words}</span></p>`)
  }

  #leftOutLine(): Template | null {
    const never = new Set(this.#neverPacked)
    const usual = this.#leftOut.filter(name => !never.has(name))
    const stays = this.#isWhole ? this.#neverPacked : this.#leftOut
    if (this.#leftOut.length === 0) return null
    return html`
      <p class="left-out muted small">
        ${stays.length === 0 ? null : named(stays, list => t('{count} excluded, as in svc push: {list}', { count: numberWords(stays.length), list }))} ${this.#isWhole && usual.length > 0 ? named(usual, list => t('Included, although excluded by default: {list}', { list })) : null} ${
          usual.length === 0
            ? null
            : html`
          <button type="button" @click="${() => this.#switch()}">
            ${this.#isWhole ? t('Exclude them') : t('Include them')}
          </button>`
        }
      </p>`
  }

  /** Shows what the deployment would do, or why that is not known. */
  #planned(seen: Seen): Template {
    if (this.#plan !== null) return planView(this.#plan)
    if (this.#planProblem !== null)
      return html`<p class="muted small">${t('Not compared with the files on the server: {reason}', { reason: this.#planProblem })}</p>`
    const share = seen.bytes === 0 ? 1 : this.#readBytes / seen.bytes
    return html`
      <p class="muted small" role="status">${t('Comparing with the files on the server…')}</p>
      <progress .value="${Math.min(1, share)}" aria-label="${t('Comparison')}"></progress>`
  }

  /** Compares with the files on the server. The deployment is possible without it. */
  async #compare({ entries }: Seen, signal: AbortSignal): Promise<void> {
    this.#plan = null
    this.#planProblem = null
    this.#readBytes = 0
    const both = AbortSignal.any([signal, this.signal])
    let toldAt = 0
    const onProgress = (bytes: number): void => {
      this.#readBytes += bytes
      if (performance.now() - toldAt < tellEveryMs) return
      toldAt = performance.now()
      this.update()
    }
    try {
      const options = { signal: both, onProgress }
      const tree = await (this.chosen.kind === 'zip'
        ? treeOfZip(this.chosen.file, options)
        : treeOfFiles(entries ?? [], options))
      const plan = await this.planOf(tree, both)
      if (!both.aborted) this.#plan = plan
    } catch (error) {
      if (!both.aborted) this.#planProblem = errorWords(error)
    }
    if (!both.aborted) this.update()
  }

  #switch(): void {
    this.#isWhole = !this.#isWhole
    void this.#look()
  }

  async #look(): Promise<void> {
    this.#looking.abort()
    const looking = (this.#looking = new AbortController())
    this.#seen = null
    this.#plan = null
    this.#problem = null
    this.#count = 0
    this.update()
    try {
      const seen = await (this.chosen.kind === 'zip'
        ? this.#lookIntoZip(this.chosen.file)
        : this.#gather(this.chosen.found, looking.signal))
      if (looking.signal.aborted || this.signal.aborted) return
      this.#seen = seen
      this.#hasToFocus = true
      void this.#compare(seen, looking.signal)
    } catch (error) {
      if (looking.signal.aborted || this.signal.aborted) return
      this.#problem = errorWords(error)
      this.#hasToFocus = true
    }
    this.update()
  }

  async #lookIntoZip(file: File): Promise<Seen> {
    const entries = await readZip(file)
    const secret = entries.find(({ isEncrypted }) => isEncrypted)
    if (secret !== undefined)
      this.#problem = t('“{path}” is encrypted. Create the zip again without a password.', { path: secret.path })
    return {
      ...contentsOf(entries.map(({ path, isDirectory, bytes }) => ({ path, bytes: isDirectory ? null : bytes }))),
      entries: null
    }
  }

  async #gather(found: readonly Found[], signal: AbortSignal): Promise<Seen> {
    const gathered: Gathered = await gather(found, {
      isWhole: this.#isWhole,
      signal: AbortSignal.any([signal, this.signal]),
      onProgress: files => this.#counted(files)
    })
    if (!this.#isWhole) this.#leftOut = gathered.leftOut
    this.#neverPacked = gathered.neverPacked
    const entries: ContentEntry[] = gathered.entries.map(({ path, file }) => ({ path, bytes: file?.size ?? null }))
    return { ...contentsOf(entries), entries: gathered.entries }
  }

  #counted(files: number): void {
    if (files % tellEvery !== 0) return
    this.#count = files
    this.update()
  }

  #want(event: Event): void {
    event.preventDefault()
    const message = this.querySelector('input')?.value.trim() ?? ''
    if (this.#seen === null) return
    const { entries, bytes } = this.#seen
    this.dispatchEvent(new PackWantedEvent({ entries, bytes, message, planId: this.#plan?.planId ?? null }))
  }
}

/** Returns the sentence for an archive that exceeds the server's limit. */
export function tooLarge(bytes: number, limitBytes: number): string {
  return t('Archive size {size} exceeds the limit of {limit} (setting max_upload_size).', {
    size: formatBytes(bytes),
    limit: formatBytes(limitBytes)
  })
}

function listWords(names: readonly string[]): string {
  const shown = names.slice(0, shownNames).join(', ')
  if (names.length <= shownNames) return shown
  return t('{names} and {count} more', { names: shown, count: numberWords(names.length - shownNames) })
}

function named(names: readonly string[], say: (list: string) => string): Template {
  return html`<span title="${names.slice(0, 100).join('\n')}">${say(listWords(names))}</span>`
}
