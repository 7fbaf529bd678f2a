import { said, type Said, css, SvcElement } from '../element.js'
import { foundInDrop, foundInFiles, limitsOf, nameOf, tooLarge, type UploadLimits } from '../../archive/gather.js'
import { html, icon, type Template } from '../../dom/html.js'
import { numberWords, t, errorWords } from '../../words/t.js'
import { errorLine } from '../base/form.js'
import { formatBytes, runsCommand } from '../../shared/api.js'
import type { ProjectOverview } from '../../../lib/model/health.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { Provenance } from '../../../lib/model/provenance.js'
import { CannotPack, type PackEntry, packZip } from '../../archive/zip.js'
import type { ElementTable } from '../../pages/page.js'
import type { DigestedTree } from '../../archive/plan-tree.js'
import type { Changes } from '../../server/changes.js'
import { type Client, Refused, serverNow, Unreachable } from '../../server/client.js'
import type { BrowserKey } from '../../browser-key.js'
import { isProxyLimit, upload, type UploadOptions } from '../../server/upload.js'
import { commandView, curlCommand, ownToken, pushCommand, pushWords, tokenHint } from '../projects/project-fields.js'
import { serverAddress } from '../../dom/address.js'
import type { Chosen } from './svc-pack.js'
import { maskWords } from '../base/words.js'
import { may } from '../../state/session.js'

/** The progress of packing, reading or sending. */
export interface Progress {
  /** `reading`: the file is read before it is sent in pieces. */
  stage: 'packing' | 'reading' | 'sending'
  name: string
  doneBytes: number
  totalBytes: number
  /** What else the reader should know. */
  note: string | null
}

/** What each stage is called. English; passed to t(). */
const stageWords: Readonly<Record<Progress['stage'], string>> = {
  packing: 'Packing',
  reading: 'Reading',
  sending: 'Uploading'
}

const isZip = ({ name }: { name: string }): boolean => /\.zip$/i.test(name)

/**
 * A place to drop or choose a zip, files or folders. Properties: `progress`, of the current upload, or null; `problem`,
 * a sentence, or null; `prunes`, whether files that are not in the archive are removed. Events: `filechosen` for one zip, `found` for anything else, `uploadcancel`.
 */
export class SvcUpload extends SvcElement {
  static override sheet = css`
    svc-upload {
      display: block;

      .zone, .sending {
        display: grid;
        align-content: center;
        justify-items: center;
        gap: 8px;
        min-height: 148px;
        padding: 20px;
        border: 1px dashed var(--edge);
        border-radius: var(--radius);
        text-align: center;
      }

      .zone > .icon { width: 20px; height: 20px; color: var(--muted); }
      .zone b { font-weight: 500; }
      .zone label { position: relative; min-height: 32px; padding-block: 2px; }
      .zone label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
      &.over .zone { border-color: var(--accent); border-style: solid; background: var(--accent-quiet); }
      .sending { border-style: solid; border-color: var(--line); gap: 10px; }
      .sending p { max-width: 100%; }
      progress { width: min(320px, 100%); height: 6px; accent-color: var(--accent); }
      .error-line { margin-top: 8px; }
    }
  `

  progress: Progress | null = null
  problem: string | null = null
  prunes = false

  protected override connected(): void {
    this.listen(this, 'dragover', event => {
      event.preventDefault()
      this.classList.add('over')
    })
    this.listen(this, 'dragleave', event => {
      const to = (event as DragEvent).relatedTarget
      if (!(to instanceof Node && this.contains(to))) this.classList.remove('over')
    })
    this.listen(this, 'drop', event => {
      event.preventDefault()
      this.classList.remove('over')
      if (this.progress === null) this.#dropped((event as DragEvent).dataTransfer)
    })
  }

  protected override view(): Template {
    return html`
      ${this.progress === null ? this.#zone() : this.#sending(this.progress)}
      ${errorLine(this.problem)}`
  }

  #zone(): Template {
    const choose = (event: Event): void => {
      const input = event.currentTarget as HTMLInputElement
      const files = [...(input.files ?? [])]
      // Allows to choose the same file again after it was fixed.
      input.value = ''
      this.#chosen(files)
    }
    return html`
      <div class="zone">
        ${icon('deployments')}
        <b>${t('Drop a zip, files or a folder here')}</b>
        <div class="actions">
          <label class="button">
            ${icon('file')}${t('Choose files')}<input type="file" multiple="" class="unseen" @change="${choose}">
          </label>
          <label class="button">
            ${icon('folder')}${t('Choose a folder')}<input type="file" webkitdirectory="" class="unseen" @change="${choose}">
          </label>
        </div>
        <span class="muted small">${this.prunes ? t('Files of earlier deployments that it does not contain are removed.') : t('Files with the same name are replaced; other files stay.')}</span>
      </div>`
  }

  #sending({ stage, name, doneBytes, totalBytes, note }: Progress): Template {
    const isSent = stage === 'sending' && totalBytes > 0 && doneBytes >= totalBytes
    const verb = isSent ? t('Deploying') : t(stageWords[stage])
    return html`
      <div class="sending">
        <p class="cut">${verb} <b translate="no">${name}</b></p>
        <progress aria-label="${verb}" max="${Math.max(1, totalBytes)}" .value="${doneBytes}"></progress>
        <p class="muted small number">${t('{done} of {total}', { done: formatBytes(doneBytes), total: formatBytes(totalBytes) })}</p>
        ${note === null ? null : html`<p class="muted small" role="status">${note}</p>`}
        ${
          isSent
            ? null
            : html`
            <button type="button" @click="${() => this.dispatchEvent(said('uploadcancel'))}">${t('Cancel')}</button>`
        }
      </div>`
  }

  #dropped(transfer: DataTransfer | null): void {
    const [file, second] = transfer?.files ?? []
    const found = transfer === null ? [] : foundInDrop(transfer.items)
    // A folder named x.zip is also listed among the files.
    if (file !== undefined && second === undefined && found[0]?.kind === 'file' && isZip(file)) return this.#send(file)
    if (found.length > 0) this.dispatchEvent(said('found', { found }))
  }

  #chosen(files: File[]): void {
    const [file, second] = files
    if (file === undefined) return
    if (second === undefined && isZip(file) && file.webkitRelativePath === '') this.#send(file)
    else this.dispatchEvent(said('found', { found: foundInFiles(files) }))
  }

  #send(file: File): void {
    this.dispatchEvent(said('filechosen', { file }))
  }
}

/** Files of this size are sent in pieces from the beginning, as by `svc push` (lib/base/shared/pieces.ts). */
const piecesFromBytes = 32 * 1024 * 1024

/** How a file is deployed. */
interface Sending {
  name: string
  message: string
  planId: string | null
  /** Why it begins outside of the windows of the project. */
  override: string | null
  /** Null: the file is the whole archive. */
  changes: Changes | null
  /** What was signed, and the signature. */
  attached: Signed | null
  signal: AbortSignal
}

type Signed = NonNullable<UploadOptions['attached']>

/** The origin of a deployment from the panel before anything is known about it. */
const nothingKnown: Provenance = {
  source: 'panel',
  commit: null,
  branch: null,
  tag: null,
  author: null,
  subject: null,
  dirty: null,
  repository: null,
  ci: null,
  by: null
}

/**
 * The ways to deploy to a project. Properties: `project`, `client`; `nodeCount`, the number of nodes that it is rolled
 * out to; `signatures`, what is asked of the signatures of releases; `define`, registers elements that are loaded late; `by`, the signed-in user; `isInPage`: the ways are part of
 * the page; otherwise they are a dialog while `isOpen`. Events: `deploystarted`; `dialogclose`: the reader closes them.
 */
export class SvcProjectDeploy extends SvcElement {
  static override sheet = css`
    svc-project-deploy {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 24px;

      .signatures { padding: 10px 12px; border-radius: var(--radius); background: var(--sunken); font-size: var(--size-13); overflow-wrap: anywhere; }
      .ways { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 24px; }
      .way { display: grid; gap: 12px; align-content: start; grid-template-columns: minmax(0, 1fr); }
      svc-dialog { display: contents; }
      svc-dialog .ways { grid-template-columns: minmax(0, 1fr); margin-bottom: 16px; }
      h3 { font-size: var(--size-14); }
      summary { width: fit-content; color: var(--muted); font-size: var(--size-13); cursor: pointer; }
      summary:hover { color: var(--text); }
      details .command { margin-top: 8px; }
      @media (max-width: 959px) { .ways { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  client!: Client
  define!: (elements: ElementTable) => void
  by = ''
  nodeCount = 0
  isInPage = false
  isOpen = false
  signatures: ProjectOverview['signatures'] | null = null
  project!: Project
  #chosen: Chosen | null = null
  #limits: UploadLimits | null = null
  #progress: Progress | null = null
  #problem: string | null = null
  #note: string | null = null
  #giveUp = new AbortController()

  protected override connected(): void {
    if (this.isOpen) this.#focusZone()
  }

  protected override changed(name: string): void {
    if (name === 'isOpen' && this.isOpen) this.#focusZone()
  }

  /** Focuses the first control of the dialog, after the microtasks that show it. */
  #focusZone(): void {
    setTimeout(() => this.querySelector<HTMLElement>('svc-dialog input[type=file]')?.focus())
  }

  protected override view(): Template {
    const { name } = this.project
    return html`
      ${this.isInPage ? this.#ways() : null}
      <svc-dialog heading="${t(this.#chosen === null ? 'Deploy to {name}' : 'Deploy to {name}?', { name })}"
        persistent="${this.#progress !== null && !this.isInPage}" .content="${this.#dialog()}"
        @dialogclose="${(event: Event) => this.#closed(event)}"></svc-dialog>`
  }

  #dialog(): Template | null {
    if (this.#chosen !== null) return this.#question(this.#chosen)
    if (this.isInPage || !this.isOpen) return null
    return html`
      ${this.#ways()}
      <div class="actions end">
        <button type="button" disabled="${this.#progress !== null}" @click="${() => this.dispatchEvent(said('dialogclose'))}">${t('Cancel')}</button>
      </div>`
  }

  #ways(): Template {
    return html`
      ${this.#signatureLine()}
      <div class="ways">
        <section class="way">
          <h3>${t('Deploy from this browser')}</h3>
          ${this.#zone()}
        </section>
        <section class="way">
          <h3>${t('Push from a terminal')}</h3>
          ${this.#command(pushCommand)}
          <p class="muted small">
            ${t('Run this once at the top of your repository, and replace dist with your build directory. After that, run:')} <code>${pushWords(this.#asked)}</code><br>
            ${tokenHint(this.project)}
          </p>
          <details>
            <summary>${t('Without the svc command')}</summary>
            ${this.#command(curlCommand)}
          </details>
        </section>
      </div>`
  }

  /** The project, with what is asked of its releases. */
  get #asked(): Project {
    const { project } = this
    if (this.signatures == null) return project
    const { require, threshold, sbom } = this.signatures
    const own = project.policy.signatures ?? { keys: null, rollbackBySignature: 'refuse' as const }
    const signatures = { ...own, require, threshold, sbom }
    return { ...project, policy: { ...project.policy, signatures } }
  }

  /** Says what is asked of signatures, before somebody packs anything. */
  #signatureLine(): Template | null {
    const { require = 'off', threshold = 1, sbom = 'off' } = this.#asked.policy.signatures ?? {}
    const keys = { count: numberWords(threshold) }
    const lines = [
      require === 'refuse'
        ? t('A release is refused unless it is signed. Keys that must have signed: {count}.', keys)
        : null,
      require === 'warn' ? t('A release that is not signed is deployed with a warning.') : null,
      sbom === 'require' ? t('A push without a list of components (SBOM) is refused.') : null,
      require !== 'off' && this.signatures?.by === 'server'
        ? t('The server asks for it, whatever the settings of the project say.')
        : null
    ].filter(line => line !== null)
    if (lines.length === 0) return null
    return html`
      <p class="signatures">
        ${lines.join(' ')}<br>
        <code translate="no">${pushWords(this.#asked)}</code>
      </p>`
  }

  /** Leaving the question leads back to the ways. */
  #closed(event: Event): void {
    if (this.#chosen === null) return
    event.stopPropagation()
    this.#show(null)
  }

  #zone(): Template {
    return html`
      <svc-upload .prunes="${this.project.policy.prune === 'managed'}" .progress="${this.#progress}" .problem="${this.#problem}"
        @filechosen="${(event: Event) => void this.#ask({ kind: 'zip', file: (event as Said<'filechosen'>).file })}"
        @found="${(event: Event) => void this.#ask({ kind: 'files', found: (event as Said<'found'>).found })}"
        @uploadcancel="${() => this.#giveUp.abort()}"></svc-upload>`
  }

  #question(chosen: Chosen): Template {
    return html`
      <svc-pack .chosen="${chosen}" .project="${this.project}" .client="${this.client}" .limits="${this.#limits}" .nodeCount="${this.nodeCount}"
        @packwanted="${(event: Event) => this.#begin(chosen, event as Said<'packwanted'>)}"
        @packcancel="${() => this.#show(null)}"></svc-pack>`
  }

  #command(commandOf: typeof pushCommand): Template {
    const server = serverAddress(this.client.address(''))
    const { token } = this.project
    return html`
      <div class="command">
        ${commandView(commandOf(this.#asked, server, token === null ? ownToken : maskWords(token)))}
        <svc-copy .text="${commandOf(this.#asked, server, token ?? ownToken)}"></svc-copy>
      </div>`
  }

  #show(chosen: Chosen | null): void {
    this.#chosen = chosen
    this.#problem = null
    this.update()
    // The ways in the page get the focus back from the browser.
    if (chosen === null && !this.isInPage) this.#focusZone()
  }

  async #ask(chosen: Chosen): Promise<void> {
    try {
      this.define((await import('./svc-pack.js')).elements)
    } catch (error) {
      this.#problem = errorWords(error)
      return this.update()
    }
    this.#show(chosen)
    await this.#askLimits()
  }

  /** The limits are optional: without them, the server itself rejects what is too large. */
  async #askLimits(): Promise<void> {
    if (!may('settings')) return
    try {
      this.#limits = limitsOf(
        await this.client.ask<Record<string, unknown>>('GET', 'api/settings', { signal: this.signal })
      )
      this.update()
    } catch {
      // The upload reports the problem itself.
    }
  }

  #begin(chosen: Chosen, { entries, bytes, message, planId, override, tree, signer }: Said<'packwanted'>): void {
    this.#chosen = null
    const name = chosen.kind === 'zip' ? chosen.file.name : nameOf(chosen.found)
    void this.#work(async signal => {
      const isSigned = signer !== null && tree !== null
      const attached = isSigned ? await this.#sign(signer, { treeSha256: tree.treeSha256, message }) : null
      const asked = { name, message, planId, override, changes: null, attached, signal }
      if (chosen.kind === 'zip') return this.#send(chosen.file, asked)
      if (entries === null) return
      const changes = tree === null ? null : await this.#findChanges(tree, signal)
      if (changes !== null) {
        const isSent = ({ path, file }: PackEntry): boolean => file === null || changes.paths.has(path)
        const zip = await this.#pack(entries.filter(isSent), { name, bytes, signal })
        try {
          return await this.#send(zip, { ...asked, changes })
        } catch (error) {
          const { refusedChanges } = await import('../../shared/tree-delta.js')
          if (!(error instanceof Refused && refusedChanges.has(error.code))) throw error
          this.#note = t('The server cannot use the changes any more. All files are sent.')
        }
      }
      await this.#send(await this.#pack(entries, { name, bytes, signal }), asked)
    })
  }

  async #sign(signer: BrowserKey, asked: { treeSha256: string; message: string }): Promise<Signed> {
    const { signRelease } = await import('../../browser-key.js')
    const { id, name } = this.project
    return signRelease(signer, { ...asked, message: asked.message || null, projectId: id, name }, serverNow())
  }

  /** Returns what has changed since the newest release. The modules are loaded only here. */
  async #findChanges(tree: DigestedTree, signal: AbortSignal): Promise<Changes | null> {
    const { findChanges } = await import('../../server/changes.js')
    return findChanges({ client: this.client, projectId: this.project.id, tree, signal })
  }

  async #pack(
    entries: readonly PackEntry[],
    { name, bytes, signal }: { name: string; bytes: number; signal: AbortSignal }
  ): Promise<File> {
    const onProgress = (doneBytes: number): void => this.#went({ stage: 'packing', name, doneBytes, totalBytes: bytes })
    onProgress(0)
    const zip = await packZip(entries, { signal, onProgress })
    const limitBytes = this.#limits?.uploadBytes ?? null
    if (limitBytes !== null && zip.size > limitBytes) throw new CannotPack(tooLarge(zip.size, limitBytes))
    return new File([zip], `${name}.zip`, { type: 'application/zip' })
  }

  /** Runs until the work ends, the reader cancels, or the page is left. */
  async #work(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#giveUp = new AbortController()
    this.#problem = null
    this.#note = null
    try {
      // Leaving the page aborts an upload but never a deployment: the server continues once it has the archive.
      await work(AbortSignal.any([this.signal, this.#giveUp.signal]))
    } catch (error) {
      if (!this.#giveUp.signal.aborted && !this.signal.aborted) this.#problem = errorWords(error)
    }
    this.#progress = null
    this.update()
  }

  async #send(file: File, { name, message, planId, override, changes, attached, signal }: Sending): Promise<void> {
    let sentBytes = 0
    const onProgress = (doneBytes: number, totalBytes: number): void => {
      sentBytes = doneBytes
      this.#went({ stage: 'sending', name, doneBytes, totalBytes })
    }
    onProgress(0, file.size)
    // Before the file is sent, not after it. A caller that does not see the scripts may have some.
    const hasHidden = (this.project.preDeployScript as string | null) === null
    if (hasHidden || runsCommand(this.project)) await this.client.ensureProven()
    const send = async (content: File | { uploadId: string }): Promise<string> =>
      upload({
        address: this.client.address('api/deploy/upload'),
        headers: await this.client.changeHeaders(),
        projectId: this.project.id,
        file: content,
        // A single line, as the server requires.
        message: (message || name).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' '),
        provenance: { ...nothingKnown, by: this.by === '' ? null : this.by },
        planId,
        override,
        changes,
        attached,
        onProgress: content instanceof File ? onProgress : () => {},
        signal
      })
    const sendInPieces = async (): Promise<string> => {
      const { uploadInPieces } = await import('../../server/pieces.js')
      const { client, project } = this
      const onRead = (doneBytes: number, totalBytes: number): void =>
        this.#went({ stage: 'reading', name, doneBytes, totalBytes })
      const uploadId = await uploadInPieces({ client, projectId: project.id, file, onRead, onProgress, signal })
      return send(uploadId === null ? file : { uploadId })
    }
    const deployId =
      file.size >= piecesFromBytes
        ? await sendInPieces()
        : await send(file).catch((error: unknown) => {
            // Unsent bytes prove that no deployment began.
            const isBroken = error instanceof Unreachable && sentBytes < file.size
            if (signal.aborted || !(isBroken || isProxyLimit(error))) throw error
            return sendInPieces()
          })
    this.dispatchEvent(said('deploystarted', { deployId }))
  }

  #went(progress: Omit<Progress, 'note'>): void {
    this.#progress = { ...progress, note: this.#note }
    this.update()
  }
}

/** The elements that the page of a project registers when its form to deploy is opened. */
export const elements = { 'svc-project-deploy': SvcProjectDeploy, 'svc-upload': SvcUpload }
