import type { SignatureDemand } from '../../../lib/model/access.js'
import { said, type Said, css, SvcElement } from '../element.js'
import {
  type ContentEntry,
  type Contents,
  contentsOf,
  type Found,
  gather,
  type Gathered,
  isOtherArchive,
  isZipName,
  nameOf,
  tooLarge,
  type UploadLimits
} from '../../archive/gather.js'
import { readZip } from '../../archive/read-zip.js'
import type { PackEntry } from '../../archive/zip.js'
import type { DigestedTree, digestDropped } from '../../archive/plan-tree.js'
import { may, mayLoosen } from '../../state/session.js'
import { isRefused, formatBytes } from '../../shared/api.js'
import type { PlanAnswer } from '../../../lib/model/plan.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { PlanBody, PlanWishes, requestPlan } from '../../server/requests.js'
import type { Client } from '../../server/client.js'
import type { BrowserKey } from '../../browser-key.js'
import type { planView } from './plan-view.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, numberWords, t, errorWords } from '../../words/t.js'
import { field, question } from '../base/form.js'
import { overrideField } from './override-field.js'
import { SvcLog } from '../logs/svc-log.js'
import { SvcSign } from './svc-sign.js'

/** The reader's choice: one zip, or files and folders to pack here. */
export type Chosen = { kind: 'zip'; file: File } | { kind: 'files'; found: readonly Found[] }

/** Maximum length of a message on the server (lib/model/deployment.ts). */
const maxMessageLength = 500
/** Number of excluded names to show. */
const shownNames = 5
/** A long count is updated after this many entries. */
const tellEvery = 250
/** Number of steps in which the progress of reading is shown. */
const progressSteps = 100
const noWishes: PlanWishes = { force: false, pruneAll: false, pruneForeign: false, override: null }

const noOffers = { force: false, pruneAll: false, pruneForeign: false, override: false }
/** The code of what only a reason lifts. */
const outside = 'outside_window'

/** The contents of the choice. */
interface Seen extends Contents {
  /** Null if the zip is sent unchanged. */
  entries: readonly PackEntry[] | null
}

/** The modules that digest and plan, which are loaded when something is dropped. */
interface PlanModules {
  digestDropped: typeof digestDropped
  requestPlan: typeof requestPlan
  planView: typeof planView
}

async function loadPlanning(): Promise<PlanModules> {
  const [tree, calls, view] = await Promise.all([
    import('../../archive/plan-tree.js'),
    import('../../server/requests.js'),
    import('./plan-view.js')
  ])
  return { ...tree, ...calls, ...view }
}

/** How far the plan is. Without a plan, the deployment is possible as before. */
type Planned =
  | { state: 'none' }
  | { state: 'reading'; doneBytes: number; totalBytes: number }
  | { state: 'asking' }
  | { state: 'planned'; plan: PlanAnswer; modules: PlanModules }
  | { state: 'failed'; why: string; isInvalid: boolean }

/**
 * The confirmation before a deployment from the panel: its contents, its target, what the rules exclude, the plan of the
 * server, and a message. Properties: `chosen`, `project`, `client`, `limits` (null if not known); `nodeCount`, the number of
 * nodes that it is rolled out to, which check it themselves, without a plan. Events: `packwanted`, `packcancel`.
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
      .planning { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px; }
      .planning > p { flex: 1 1 auto; }
      .planning progress { width: 100%; order: 1; }
      .planning button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
      .plan { display: grid; grid-template-columns: minmax(0, 1fr); gap: 6px; padding: 12px; border: 1px solid var(--line); border-radius: var(--radius); overflow-wrap: anywhere; }
      .plan summary { display: flex; align-items: center; gap: 6px; min-height: 28px; font-size: var(--size-13); cursor: pointer; list-style: none; }
      .plan summary::-webkit-details-marker { display: none; }
      .plan summary .icon { color: var(--muted); }
      .plan [open] > summary .icon { rotate: 90deg; }
      .plan .mark { font-family: var(--mono); color: var(--muted); }
      .plan .edited summary { color: var(--warning); }
      .plan ul { max-height: 180px; overflow: auto; padding-left: 22px; font: var(--size-12) / 1.6 var(--mono); }
      @media (max-width: 479px) {
        .about { grid-template-columns: minmax(0, 1fr); gap: 0; }
        .about dd + dt { margin-top: 8px; }
      }
    }
  `

  project!: Project
  client!: Client
  limits: UploadLimits | null = null
  nodeCount = 0
  chosen!: Chosen
  #seen: Seen | null = null
  #leftOut: readonly string[] = []
  #neverPacked: readonly string[] = []
  #count = 0
  #isWhole = false
  #problem: string | null = null
  #looking = new AbortController()
  #planned: Planned = { state: 'none' }
  #planBody: (PlanBody & { tree: DigestedTree }) | null = null
  #wishes: PlanWishes = noWishes
  /** Whether the reader may want these: they were needed once, and the boxes stay. */
  #offers: Record<keyof PlanWishes, boolean> = noOffers
  #hasToFocus = false
  /** What is asked of releases; null: no signature. */
  #demand: SignatureDemand | null = null
  #signer: BrowserKey | null = null
  /** Whether the reader wants no plan: the files are still read, because their signature needs the tree. */
  #isPlanless = false

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
          ${
            this.nodeCount > 0
              ? html`<dt>${t('Nodes')}</dt><dd class="number">${countWords(this.nodeCount, 'node')}, ${t('in waves')}</dd>`
              : html`<dt>${t('Directory')}</dt><dd><code>${this.project.deployPath}</code></dd>`
          }
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
        ${refusal === null ? this.#planLines() : null}
        ${
          this.#demand === null || refusal !== null
            ? null
            : html`<svc-sign .demand="${this.#demand}" @signerchange="${(event: Event) => this.#signs(event as Said<'signerchange'>)}"></svc-sign>`
        }
        ${refusal === null && this.#offers.override ? this.#overrideLine() : null}
        ${field({
          form: 'pack',
          name: 'message',
          label: t('Message (optional)'),
          placeholder: this.#name,
          hint:
            this.project.policy.prune === 'managed'
              ? t('Shown in the history.')
              : t('Shown in the history. Files with the same name are replaced; other files stay.')
        })}`,
      submission: {
        problem: refusal,
        isBusy: seen === null || refusal !== null || this.#mustWait || this.#needsSigner
      },
      answer: t('Deploy'),
      kind: 'primary',
      onAnswer: event => this.#want(event),
      onRefusal: () => this.dispatchEvent(said('packcancel'))
    })
  }

  protected override rendered(): void {
    this.querySelector('input[name=message]')?.setAttribute('maxlength', String(maxMessageLength))
    if (!this.#hasToFocus) return
    this.#hasToFocus = false
    // The reader may type the message while the plan is made.
    if (this.contains(document.activeElement) && document.activeElement?.matches('input[name=message]')) return
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
    this.#planned = { state: 'none' }
    this.#planBody = null
    this.#isPlanless = false
    this.#wishes = noWishes
    this.#offers = noOffers
    this.update()
    try {
      const seen = await (this.chosen.kind === 'zip'
        ? this.#lookIntoZip(this.chosen.file)
        : this.#gather(this.chosen.found, looking.signal))
      if (looking.signal.aborted || this.signal.aborted) return
      this.#seen = seen
      this.#hasToFocus = true
      if (this.nodeCount > 0) await this.#askDemand()
      const needsTree = this.nodeCount === 0 || this.#demand !== null
      if (needsTree && this.#problem === null && this.#limitRefusal() === null && this.#refusal(seen) === null) {
        void this.#plan(seen, AbortSignal.any([looking.signal, this.signal]))
      }
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
    const message = this.querySelector<HTMLInputElement>('input[name=message]')?.value.trim() ?? ''
    if (this.#seen === null) return
    const { entries, bytes } = this.#seen
    const planId = this.#planned.state === 'planned' ? this.#planned.plan.planId : null
    const tree = this.#planBody?.tree ?? null
    const { override } = this.#wishes
    this.dispatchEvent(said('packwanted', { entries, bytes, message, planId, override, tree, signer: this.#signer }))
  }

  /** Whether the plan is not known yet, or says that the deployment would be refused. */
  get #mustWait(): boolean {
    const planned = this.#planned
    if (planned.state === 'planned') return isRefused(planned.plan)
    if (this.#offers.override && this.#wishes.override === null) return true
    return planned.state === 'reading' || planned.state === 'asking'
  }

  #planLines(): Template | null {
    const planned = this.#planned
    const skip = html`<button type="button" @click="${() => void this.#skip()}">${t('Continue without a plan')}</button>`
    switch (planned.state) {
      case 'none':
        return null
      case 'reading':
        return html`
          <div class="planning">
            <p class="muted small" role="status">${t('Reading the files, to compare them with the server…')}</p>
            <progress max="${Math.max(1, planned.totalBytes)}" .value="${planned.doneBytes}" aria-label="${t('Reading the files, to compare them with the server…')}"></progress>
            ${this.#demand === null ? skip : null}
          </div>`
      case 'asking':
        return html`<div class="planning"><p class="muted small" role="status">${t('Comparing with the files on the server…')}</p>${skip}</div>`
      case 'failed':
        return html`<p class="note">${icon('warning')}<span>${
          planned.isInvalid
            ? t('{reason}. The server takes no such files: correct them first.', { reason: planned.why })
            : t('No plan: {reason}. The files can be deployed without one.', { reason: planned.why })
        }</span></p>`
      case 'planned':
        return html`
          ${planned.modules.planView(planned.plan)}
          ${this.#wishBox('force', t('Replace the edited files'))}
          ${this.#wishBox('pruneAll', t('Remove the files, although they are many'))}
          ${this.#wishBox('pruneForeign', t('Remove also what svc did not put there'))}
          ${isRefused(planned.plan) ? html`<p class="planning"><button type="button" @click="${() => void this.#ask()}">${t('Plan again')}</button></p>` : null}`
    }
  }

  /** The field for the reason. A plan is made again with it, and so is the question what is asked of signatures. */
  #overrideLine(): Template {
    const onInput = (text: string): void => {
      this.#wishes = { ...this.#wishes, override: text.trim() || null }
      // Without a plan, only the button waits for it.
      if (this.#planned.state !== 'planned') this.update()
    }
    const ask = (): void => void (this.#planned.state === 'planned' ? this.#ask() : this.#askDemand())
    return html`<div @change="${ask}">${overrideField('pack', onInput)}</div>`
  }

  #wishBox(wish: Exclude<keyof PlanWishes, 'override'>, words: string): Template | null {
    if (!this.#offers[wish]) return null
    const change = (event: Event): void => {
      this.#wishes = { ...this.#wishes, [wish]: (event.currentTarget as HTMLInputElement).checked }
      void this.#ask()
    }
    return html`
      <label class="check"><input type="checkbox" .checked="${this.#wishes[wish]}" @change="${change}"><span>${words}</span></label>`
  }

  async #skip(): Promise<void> {
    this.#isPlanless = true
    const isReading = this.#planned.state === 'reading'
    if (!isReading) this.#endPlan()
    await this.#askDemand()
    if (isReading && this.#demand === null) this.#endPlan()
  }

  #endPlan(): void {
    this.#looking.abort()
    this.#planned = { state: 'none' }
    this.#hasToFocus = true
    this.update()
  }

  /** Digests what was dropped, and asks the server what its deployment would do. */
  async #plan(seen: Seen, signal: AbortSignal): Promise<void> {
    const totalBytes = seen.bytes
    this.#planned = { state: 'reading', doneBytes: 0, totalBytes }
    this.update()
    let shownBytes = 0
    const onProgress = (doneBytes: number): void => {
      if (doneBytes - shownBytes < totalBytes / progressSteps) return
      shownBytes = doneBytes
      this.#planned = { state: 'reading', doneBytes, totalBytes }
      this.update()
    }
    const dropped = this.chosen.kind === 'zip' ? this.chosen.file : (seen.entries ?? [])
    try {
      const { digestDropped } = await loadPlanning()
      this.#planBody = await digestDropped(dropped, { signal, onProgress })
    } catch (error) {
      return this.#failed(error, signal)
    }
    if (signal.aborted) return
    if (this.nodeCount === 0 && !this.#isPlanless) return await this.#ask()
    // Nodes plan for themselves: only the signature needs the tree.
    this.#planned = { state: 'none' }
    this.update()
  }

  /**
   * Learns what the project, or the owner of the server, asks of releases. It is refused where a plan is, so it follows a plan
   * that is not. The upload reports what this cannot.
   */
  async #askDemand(): Promise<void> {
    try {
      const query = { projectId: this.project.id, override: this.#wishes.override ?? undefined }
      const asked = { query, signal: this.signal }
      const { signatures } = await this.client.call('GET /api/deploy/check', asked)
      this.#demand = signatures === undefined || signatures.require === 'off' ? null : signatures
      this.update()
    } catch (error) {
      // Without it, the deployment is possible as before.
      if ((error as { code?: unknown }).code !== outside || !may('rollback')) return
      this.#offers = { ...this.#offers, override: true }
      this.update()
    }
  }

  #signs({ key }: Said<'signerchange'>): void {
    this.#signer = key
    this.update()
  }

  /** Whether the server would refuse the release because nothing signs it. */
  get #needsSigner(): boolean {
    if (this.#demand?.require === 'refuse' && this.#signer === null) return true
    return this.#signer !== null && this.#planBody === null
  }

  /** Asks for a plan of what was digested. */
  async #ask(): Promise<void> {
    const signal = AbortSignal.any([this.#looking.signal, this.signal])
    const asked = this.#planBody
    if (asked === null) return
    const wishes = this.#wishes
    this.#planned = { state: 'asking' }
    this.update()
    try {
      const modules = await loadPlanning()
      const plan = await modules.requestPlan(this.client, this.project.id, { ...asked, wishes, signal })
      if (!isRefused(plan)) await this.#askDemand()
      if (signal.aborted || wishes !== this.#wishes) return
      const { policy } = this.project
      const offers = offersOf(plan, this.project)
      this.#offers = {
        force: this.#offers.force || offers.force,
        pruneAll: this.#offers.pruneAll || offers.pruneAll,
        pruneForeign: this.#offers.pruneForeign || offers.pruneForeign,
        override: this.#offers.override || offers.override
      }
      this.#planned = { state: 'planned', plan, modules }
      this.#hasToFocus = true
      this.update()
      if (plan.live !== null || this.#offers.pruneForeign || !mayLoosen(policy.pruneByDeployToken)) return
      // The directory may have held files before svc deploys to it. Only a plan that would remove them knows.
      const all = { ...wishes, pruneForeign: true }
      const cleaned = await modules
        .requestPlan(this.client, this.project.id, { ...asked, wishes: all, signal })
        .catch(() => null)
      if (signal.aborted || (cleaned?.counts.unowned ?? 0) === 0) return
      this.#offers = { ...this.#offers, pruneForeign: true }
      this.update()
    } catch (error) {
      this.#failed(error, signal)
    }
  }

  #failed(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return
    const isInvalid = (error as { code?: unknown }).code === 'invalid_tree'
    this.#planned = { state: 'failed', why: errorWords(error).replace(/[.。]$/, ''), isInvalid }
    void this.#askDemand()
    this.#hasToFocus = true
    this.update()
  }
}

/** Returns what the reader may ask for instead of the policy. */
function offersOf({ checks, paths, counts }: PlanAnswer, { policy }: Project): Record<keyof PlanWishes, boolean> {
  const mayPrune = mayLoosen(policy.pruneByDeployToken)
  return {
    force:
      mayLoosen(policy.forceByDeployToken) &&
      policy.drift === 'refuse' &&
      paths.drifted.some(({ overwritten }) => overwritten),
    pruneAll: mayPrune && checks.some(({ name, ok }) => name === 'prune_limit' && !ok),
    pruneForeign: mayPrune && counts.foreign > 0,
    override: may('rollback') && checks.some(({ code, ok }) => code === outside && !ok)
  }
}

function listWords(names: readonly string[]): string {
  const shown = names.slice(0, shownNames).join(', ')
  if (names.length <= shownNames) return shown
  return t('{names} and {count} more', { names: shown, count: numberWords(names.length - shownNames) })
}

function named(names: readonly string[], say: (list: string) => string): Template {
  return html`<span title="${names.slice(0, 100).join('\n')}">${say(listWords(names))}</span>`
}

/** The elements of this module, which is loaded when something is dropped. */
export const elements = { 'svc-pack': SvcPack, 'svc-sign': SvcSign, 'svc-log': SvcLog, ...SvcLog.parts }
