import { said, css, SvcElement } from '../element.js'
import type { ImportResult, Strategy } from '../../../lib/model/transfer.js'
import type { Client } from '../../server/client.js'
import { uploadPackage } from '../../server/upload.js'
import { html, type Template } from '../../dom/html.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { errorLine } from '../base/form.js'
import { countRecords, importResult } from './import-result.js'
import { formatBytes } from '../../shared/api.js'

const choices: ReadonlyArray<{ strategy: Strategy; words: string; hint: { words: string } }> = [
  {
    strategy: 'skip-existing',
    words: 'Keep them',
    hint: { words: 'Creates only records that do not exist here.' }
  },
  {
    strategy: 'overwrite',
    words: 'Replace them',
    hint: { words: 'Overwrites settings, projects and deployments with those of the package, including tokens.' }
  }
]

type Stage =
  | { name: 'choosing' }
  | { name: 'sending'; isTrial: boolean; sentBytes: number; totalBytes: number }
  | { name: 'tried' | 'done'; result: ImportResult }

/** Imports a package after a preview. Property: `client`. Event: `imported`. */
export class SvcImport extends SvcElement {
  static override sheet = css`
    svc-import {
      display: grid;
      gap: 20px;

      fieldset { display: grid; gap: 6px; min-width: 0; margin: 0; padding: 0; border: 0; }
      legend { padding: 0 0 6px; font-weight: 500; }
      .choice { display: grid; grid-template-columns: 16px minmax(0, 1fr); gap: 0 10px; align-items: center; }
      .check input { flex: none; }
      svc-dialog { position: absolute; }
      .choice .hint { grid-column: 2; }
      .drop {
        display: grid;
        justify-items: center;
        gap: 4px;
        padding: 20px;
        border: 1px dashed var(--edge);
        border-radius: var(--radius);
        text-align: center;
        cursor: pointer;
      }
      .drop:hover { background: var(--hover); }
      .drop.over { border-style: solid; border-color: var(--accent); background: var(--accent-quiet); }
      .drop:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
      .drop b { font-weight: 500; max-width: 100%; }
      .sending { display: grid; gap: 8px; justify-items: start; }
      progress { width: min(420px, 100%); height: 6px; accent-color: var(--accent); }
      table { width: 100%; border-collapse: collapse; }
      th, td { padding: 6px 12px 6px 0; text-align: right; font-weight: 400; white-space: nowrap; }
      th { color: var(--muted); font-size: var(--size-13); }
      th:first-child, td:first-child { text-align: left; font-weight: 500; width: 99%; white-space: normal; }
      tbody tr { border-top: 1px solid var(--line); }
      td.none { color: var(--muted); }
      td.replaced { color: var(--warning); font-weight: 600; }
      details summary { cursor: pointer; color: var(--accent); }
      details code { display: block; max-height: 200px; overflow-y: auto; padding: 8px 0; overflow-wrap: anywhere; white-space: pre-line; color: var(--muted); }
      .brings { display: grid; gap: 12px; min-width: 0; }
      .brings dl { display: grid; gap: 4px; margin: 0; }
      .brings dt { font-weight: 500; }
      .brings dd { margin: 0; font-size: var(--size-13); overflow-wrap: anywhere; }
      .brings pre { margin: 4px 0 0; padding: 8px 12px; max-height: 240px; overflow: auto; border: 1px solid var(--line); border-radius: var(--radius); background: var(--sunken); }
      .notes { display: grid; gap: 6px; }
      .notes li { display: flex; gap: 8px; font-size: var(--size-13); }
      .notes .icon { margin-top: 2px; color: var(--warning); }
      .notes .failed .icon { color: var(--failure); }
    }
  `

  client!: Client
  #file: File | null = null
  #strategy: Strategy = 'skip-existing'
  #restoresArtifacts = true
  #takesAccess = false
  #stage: Stage = { name: 'choosing' }
  #problem: string | null = null
  #isAsking = false
  #isOver = false
  #sending: AbortController | undefined

  protected override connected(): void {
    this.listen(window, 'beforeunload', event => {
      if (this.#stage.name === 'sending' && !this.#stage.isTrial) event.preventDefault()
    })
    this.signal.addEventListener('abort', () => this.#sending?.abort(), { once: true })
  }

  protected override view(): Template {
    const stage = this.#stage
    return html`
      ${stage.name === 'done' ? null : this.#form(stage.name === 'sending')}
      ${stage.name === 'sending' ? this.#progress(stage) : null}
      ${errorLine(this.#problem)}
      ${stage.name === 'tried' || stage.name === 'done' ? this.#result(stage) : null}
      <svc-dialog heading="${t('Replace existing records?')}" .content="${this.#isAsking && stage.name === 'tried' ? this.#question(stage.result) : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #form(isSending: boolean): Template {
    return html`
      <form class="form" @submit="${(event: Event) => this.#submit(event)}">
        ${this.#drop()}
        <fieldset disabled="${isSending}">
          <legend>${t('Existing records')}</legend>
          ${choices.map(
            ({ strategy, words, hint }) => html`
            <label class="choice">
              <input type="radio" name="strategy" .checked="${strategy === this.#strategy}" @change="${() => this.#choose(strategy)}">
              <span>${t(words)}</span><span class="hint muted small">${t(hint.words)}</span>
            </label>`
          )}
        </fieldset>
        <label class="check">
          <input type="checkbox" .checked="${this.#restoresArtifacts}" disabled="${isSending}"
            @change="${(event: Event) => this.#setArtifacts((event.currentTarget as HTMLInputElement).checked)}">
          <span>${t('Deploy the archives: files with the same name in the targets are replaced; other files stay')}</span>
        </label>
        <label class="check">
          <input type="checkbox" .checked="${this.#takesAccess}" disabled="${isSending}"
            @change="${(event: Event) => this.#setAccess((event.currentTarget as HTMLInputElement).checked)}">
          <span>${t('Also import the settings that control access: tokens, addresses, scripts in a push, the webhook')}</span>
        </label>
        <div class="actions">
          <button class="${this.#stage.name === 'tried' ? null : 'primary'}" disabled="${isSending || this.#file === null}">
            ${t('Preview import')}
          </button>
        </div>
      </form>`
  }

  #drop(): Template {
    const file = this.#file
    const over =
      (isOver: boolean) =>
      (event: Event): void => {
        event.preventDefault()
        this.#isOver = isOver
        this.update()
      }
    const drop = (event: Event): void => {
      over(false)(event)
      this.#take((event as DragEvent).dataTransfer?.files[0])
    }
    const change = (event: Event): void => {
      const input = event.currentTarget as HTMLInputElement
      this.#take(input.files?.[0])
      input.value = ''
    }
    return html`
      <label class="${this.#isOver ? 'drop over' : 'drop'}" @dragover="${over(true)}" @dragleave="${over(false)}" @drop="${drop}">
        <input type="file" class="unseen" accept=".zip,application/zip" @change="${change}">
        ${
          file === null
            ? html`<b>${t('Drop a package here, or choose one')}</b><span class="muted small">${t('A zip created by “svc export” or on this page.')}</span>`
            : html`<b class="cut" title="${file.name}">${file.name}</b><span class="muted small number">${formatBytes(file.size)}</span>`
        }
      </label>`
  }

  #progress({ isTrial, sentBytes, totalBytes }: Extract<Stage, { name: 'sending' }>): Template {
    const isSent = totalBytes > 0 && sentBytes >= totalBytes
    const words = !isSent ? t('Uploading…') : isTrial ? t('Reading the package…') : t('Importing…')
    return html`
      <div class="sending" role="status">
        <p>${words} <span class="muted small number">${t('{sent} of {total}', { sent: formatBytes(sentBytes), total: formatBytes(totalBytes) })}</span></p>
        <progress aria-label="${words}" max="${Math.max(1, totalBytes)}" .value="${sentBytes}"></progress>
        ${isSent && !isTrial ? null : html`<button type="button" @click="${() => this.#sending?.abort()}">${t('Cancel')}</button>`}
      </div>`
  }

  #result({ name, result }: Extract<Stage, { name: 'tried' | 'done' }>): Template {
    const isDone = name === 'done'
    const { created, replaced } = countRecords(result)
    const isNothing = created + replaced + result.artifacts.created.length + result.artifacts.replaced.length === 0
    const heading = isDone ? t('Imported') : isNothing ? t('No changes') : t('Preview')
    return html`
      <section class="section" aria-live="polite">
        <h3>${heading}</h3>
        ${importResult(result, isDone)}
        ${
          isDone
            ? html`
            <div class="actions">
              <button type="button" @click="${() => this.#restart()}">${t('Import another package')}</button>
            </div>`
            : html`
            <div class="actions">
              <button type="button" class="primary" disabled="${isNothing}" @click="${() => this.#go(result)}">
                ${replaced > 0 ? t('Import and replace…') : t('Import')}
              </button>
            </div>`
        }
      </section>`
  }

  #question(result: ImportResult): Template {
    const { replaced } = countRecords(result)
    return html`
      <div class="form">
        <p>
          ${t(
            replaced === 1
              ? '{count} of this server is replaced by that of the package. The current content is permanently lost; export it first if you may need it.'
              : '{count} of this server are replaced by those of the package. The current content is permanently lost; export it first if you may need it.',
            {
              count: countWords(replaced, 'record')
            }
          )}
        </p>
        <div class="actions end">
          <button type="button" autofocus="" @click="${() => this.#ask(false)}">${t('Cancel')}</button>
          <button type="button" class="danger primary" @click="${() => void this.#send(false)}">
            ${t('Replace {count}', { count: countWords(replaced, 'record') })}
          </button>
        </div>
      </div>`
  }

  #take(file: File | undefined): void {
    if (file === undefined || this.#stage.name === 'sending') return
    this.#file = file
    this.#reconsider()
  }

  #choose(strategy: Strategy): void {
    this.#strategy = strategy
    this.#reconsider()
  }

  #setArtifacts(isOn: boolean): void {
    this.#restoresArtifacts = isOn
    this.#reconsider()
  }

  #setAccess(isOn: boolean): void {
    this.#takesAccess = isOn
    this.#reconsider()
  }

  /** Discards the preview, which is valid only for the options it was made with. */
  #reconsider(): void {
    this.#stage = { name: 'choosing' }
    this.#problem = null
    this.update()
  }

  #restart(): void {
    this.#file = null
    this.#reconsider()
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.update()
  }

  #submit(event: Event): void {
    event.preventDefault()
    void this.#send(true)
  }

  #go(result: ImportResult): void {
    if (countRecords(result).replaced > 0) this.#ask(true)
    else void this.#send(false)
  }

  async #send(isTrial: boolean): Promise<void> {
    const file = this.#file
    if (file === null) return
    const sending = (this.#sending = new AbortController())
    this.#isAsking = false
    this.#problem = null
    this.#stage = { name: 'sending', isTrial, sentBytes: 0, totalBytes: file.size }
    this.update()
    try {
      const result = await uploadPackage({
        address: this.client.address('api/migration/import'),
        headers: await this.client.changeHeaders(),
        file,
        strategy: this.#strategy,
        restoreArtifacts: this.#restoresArtifacts,
        accessSettings: this.#takesAccess,
        dryRun: isTrial,
        signal: sending.signal,
        onProgress: (sentBytes, totalBytes) => {
          this.#stage = { name: 'sending', isTrial, sentBytes, totalBytes }
          this.update()
        }
      })
      this.#stage = { name: isTrial ? 'tried' : 'done', result }
      if (!isTrial) this.dispatchEvent(said('imported'))
    } catch (error) {
      this.#stage = { name: 'choosing' }
      this.#problem = sending.signal.aborted ? null : errorWords(error)
    }
    this.update()
  }
}
