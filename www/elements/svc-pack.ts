import { contentsOf, isOtherArchive, isZipName } from '../archive/contents.js'
import type { ContentEntry, Contents, UploadLimits } from '../archive/contents.js'
import { gather, nameOf } from '../archive/gather.js'
import type { Found, Gathered } from '../archive/gather.js'
import { readZip } from '../archive/read-zip.js'
import type { PackEntry } from '../archive/zip.js'
import type { Project } from '../../lib/model/project.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { countWords, numberWords, t } from '../words/t.js'
import { field } from './field.js'
import { question } from './question.js'
import { sizeWords } from './words.js'
import { errorWords } from '../words/errors.js'

/** What the reader chose: one zip, or files and folders that are packed here. */
export type Chosen = { kind: 'zip'; file: File } | { kind: 'files'; found: readonly Found[] }

/** The reader has seen what it is, and wants it deployed. */
export class PackWantedEvent extends Event {
  /** What is packed; null: the zip is sent as it is. */
  readonly entries: readonly PackEntry[] | null
  /** Of the files. */
  readonly bytes: number
  /** Empty: none was typed. */
  readonly message: string

  constructor(wanted: { entries: readonly PackEntry[] | null; bytes: number; message: string }) {
    super('packwanted', { bubbles: true })
    this.entries = wanted.entries
    this.bytes = wanted.bytes
    this.message = wanted.message
  }
}

/** The reader does not want it after all. */
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

/** The longest message that the server takes (lib/model/deployment.ts). */
const maxMessageLength = 500
/** So many names of what is left out are shown. */
const shownNames = 5
/** How often a long count is told. */
const tellEvery = 250

/** What was found in it. */
interface Seen extends Contents {
  /** Null: the zip is sent as it is. */
  entries: readonly PackEntry[] | null
}

/**
 * The question before a deployment from the panel: what it is, where it goes, what the rules leave out, and a message.
 * Properties `chosen`, `project`, `limits` (null: not known). Events `packwanted`, `packcancel`.
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
      @media (max-width: 479px) {
        .about { grid-template-columns: minmax(0, 1fr); gap: 0; }
        .about dd + dt { margin-top: 8px; }
      }
    }
  `

  project!: Project
  #limits: UploadLimits | null = null
  #chosen!: Chosen
  #seen: Seen | null = null
  #leftOut: readonly string[] = []
  #neverPacked: readonly string[] = []
  #count = 0
  #isWhole = false
  #problem: string | null = null
  #looking = new AbortController()
  #hasToFocus = false

  get chosen(): Chosen {
    return this.#chosen
  }

  set chosen(chosen: Chosen) {
    const isOther = chosen !== this.#chosen
    this.#chosen = chosen
    if (isOther && this.isConnected) void this.#look()
  }

  get limits(): UploadLimits | null {
    return this.#limits
  }

  set limits(limits: UploadLimits | null) {
    this.#limits = limits
    this.update()
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
          ${seen === null || seen.files < 2
            ? null
            : html`
              <dt>${seen.files > seen.largest.length ? t('Largest files') : t('Files')}</dt>
              <dd><ul>${seen.largest.map(({ path, bytes }) => html`<li><code class="cut" title="${path}">${path}</code><span class="number">${sizeWords(bytes)}</span></li>`)}</ul></dd>`}
        </dl>
        <div class="notes">${this.#notes(seen)}${this.#leftOutLine()}</div>
        ${field({
          form: 'pack', name: 'message', label: t('Message (optional)'), placeholder: this.#name,
          hint: t('Shown in the history. Same-named files are replaced, nothing else is deleted.')
        })}`,
      problem: refusal,
      isBusy: seen === null || refusal !== null,
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
    const button = this.querySelector<HTMLElement>('button.primary:enabled') ?? this.querySelector<HTMLElement>('.actions.end button')
    button?.focus()
  }

  get #name(): string {
    return this.#chosen.kind === 'zip' ? this.#chosen.file.name : nameOf(this.#chosen.found)
  }

  #facts(seen: Seen | null): string {
    if (seen === null) return t('Looking through it: {files}', { files: countWords(this.#count, 'file') })
    const facts = `${countWords(seen.files, 'file')}, ${sizeWords(seen.bytes)}`
    if (this.#chosen.kind === 'files') return facts
    return t('{facts}; {size} as a zip', { facts, size: sizeWords(this.#chosen.file.size) })
  }

  /** Of a zip its size is known at once; files are measured when they are packed. */
  #limitRefusal(): string | null {
    const { uploadBytes = null } = this.#limits ?? {}
    const bytes = this.#chosen.kind === 'zip' ? this.#chosen.file.size : 0
    return uploadBytes !== null && bytes > uploadBytes ? tooLarge(bytes, uploadBytes) : null
  }

  /** Why it cannot be deployed, known before anything is sent. */
  #refusal(seen: Seen | null): string | null {
    const { extractedBytes = null } = this.#limits ?? {}
    if (seen === null) return null
    if (seen.files === 0) return t('There is nothing to deploy in it.')
    if (extractedBytes !== null && seen.bytes > extractedBytes) {
      const sizes = { size: sizeWords(seen.bytes), limit: sizeWords(extractedBytes) }
      return t('Its files are larger than the server unpacks: {size}, at most {limit} (setting max_extracted_size).', sizes)
    }
    return null
  }

  #notes(seen: Seen | null): Template[] {
    if (seen === null || seen.files === 0) return []
    const notes: string[] = []
    const { deployPath } = this.project
    if (this.#chosen.kind === 'zip') {
      if (seen.topFolder !== null) {
        const places = { folder: seen.topFolder, path: `${deployPath.replace(/\/$/, '')}/${seen.topFolder}` }
        notes.push(t('Everything in it is in one folder, “{folder}”: the files go to {path}. To put them into the directory itself, drop the folder, not the zip.', places))
      }
      if (seen.unusual.length > 0) notes.push(t('It contains what svc push leaves out: {list}', { list: listWords(seen.unusual) }))
    } else {
      const archives = (seen.entries ?? []).map(({ path }) => path).filter(path => !path.includes('/') && (isOtherArchive(path) || isZipName(path)))
      if (archives.length > 0) notes.push(t('Put in place as it is, not unpacked: {list}. Only a zip that is dropped alone is unpacked.', { list: listWords(archives) }))
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
        ${stays.length === 0 ? null : named(stays, list => t('{count} left out, as svc push does: {list}', { count: numberWords(stays.length), list }))} ${this.#isWhole && usual.length > 0 ? named(usual, list => t('Included although usually left out: {list}', { list })) : null} ${usual.length === 0 ? null : html`
          <button type="button" @click="${() => this.#switch()}">
            ${this.#isWhole ? t('Leave them out') : t('Include them')}
          </button>`}
      </p>`
  }

  #switch(): void {
    this.#isWhole = !this.#isWhole
    void this.#look()
  }

  async #look(): Promise<void> {
    this.#looking.abort()
    const looking = (this.#looking = new AbortController())
    this.#seen = null
    this.#problem = null
    this.#count = 0
    this.update()
    try {
      const seen = await (this.#chosen.kind === 'zip' ? this.#lookIntoZip(this.#chosen.file) : this.#gather(this.#chosen.found, looking.signal))
      if (looking.signal.aborted || this.signal.aborted) return
      this.#seen = seen
      this.#hasToFocus = true
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
    if (secret !== undefined) this.#problem = t('“{path}” in it is encrypted. Pack it again without a password.', { path: secret.path })
    return { ...contentsOf(entries.map(({ path, isDirectory, bytes }) => ({ path, bytes: isDirectory ? null : bytes }))), entries: null }
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
    this.dispatchEvent(new PackWantedEvent({ entries, bytes, message }))
  }
}

/** That an archive is larger than the server takes. */
export function tooLarge(bytes: number, limitBytes: number): string {
  return t('The archive is larger than the server takes: {size}, at most {limit} (setting max_upload_size).', {
    size: sizeWords(bytes), limit: sizeWords(limitBytes)
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
