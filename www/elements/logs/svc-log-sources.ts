import { notice, said, css, SvcElement } from '../element.js'
import type { LogKind, LogSource } from '../../../lib/model/log-source.js'
import { Refused, type Client } from '../../server/client.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { kinds, kindWords } from './log-format.js'
import { createSelection } from '../base/row-choice.js'
import { formatBytes } from '../../shared/api.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { may } from '../../state/session.js'

type Standing = { size: number } | { problem: string; isMissing: boolean }

/** A button of a row. */
interface Tool {
  work: () => void
  isOff?: boolean
}

/**
 * The log files of a project: sizes, names, kinds and order. Properties: `sources`, `client`. Event: `sourceschange`.
 */
export class SvcLogSources extends SvcElement {
  static override sheet = css`
    svc-log-sources {
      display: block;

      .head { display: flex; align-items: center; gap: 12px; min-height: 48px; padding: 5px 16px; border-bottom: 1px solid var(--line); }
      .head p { flex: 1; color: var(--muted); font-size: var(--size-13); }
      .row {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) 130px 90px auto;
        align-items: center;
        gap: 0 16px;
        min-height: 57px;
        padding: 6px 12px 6px 16px;
      }
      li + li { border-top: 1px solid var(--line); }
      .row > input, .row > .tools { position: relative; z-index: 1; }
      .row > a { display: grid; min-width: 0; }
      .row b { font-weight: 500; }
      .row code { color: var(--muted); direction: rtl; text-align: left; }
      .row code bdi { unicode-bidi: plaintext; }
      .row > span { color: var(--muted); font-size: var(--size-13); }
      .row .standing { text-align: right; }
      .row .missing { color: var(--warning); }
      .tools { display: flex; }
      .tools button { width: 32px; min-height: 32px; padding: 0; }
      .change { display: grid; grid-template-columns: minmax(0, 1fr) 160px; gap: 12px 16px; align-items: end; padding: 16px; }
      .change > .actions, .change > .error-line { grid-column: 1 / -1; }

      @media (max-width: 719px) {
        .row { grid-template-columns: 16px minmax(0, 1fr) auto; }
        .row .kind { display: none; }
        .row .standing { grid-column: 2; grid-row: 2; text-align: left; }
        .tools { grid-column: 3; grid-row: 1 / 3; }
        .tools .order { display: none; }
        .change { grid-template-columns: minmax(0, 1fr); }
      }
    }
  `

  client!: Client
  readonly #selection = createSelection()
  sources: readonly LogSource[] = []
  #standings = new Map<string, Standing>()
  #changing: string | null = null
  readonly #submission = new Submission(this)
  #isRemoving = false

  protected override changed(name: string): void {
    if (name !== 'sources') return
    const ids = new Set(this.sources.map(({ id }) => id))
    this.#selection.set([...this.#selection.ids].filter(id => ids.has(id)))
    void this.#look()
  }

  protected override connected(): void {
    void this.#look()
  }

  protected override view(): Template {
    const chosen = this.#selection.ids
    return html`
      <div class="head">
        <input type="checkbox" aria-label="${t('Choose all')}" .checked="${chosen.size > 0 && chosen.size === this.sources.length}"
          @change="${() => this.#chooseAll()}">
        <p aria-live="polite">
          ${chosen.size === 0 ? countWords(this.sources.length, 'log file') : t('{count} chosen', { count: chosen.size })}
        </p>
        ${chosen.size < 2 ? null : this.#together([...chosen])}
        ${
          chosen.size === 0 || !may('remove_logs')
            ? null
            : html`<button type="button" class="danger" @click="${() => this.#askRemove(true)}">${t('Remove…')}</button>`
        }
      </div>
      <ul>
        ${this.sources.map((source, index) =>
          keyed(
            source.id,
            html`
          <li>${this.#changing === source.id ? this.#form(source) : this.#row(source, index)}</li>`
          )
        )}
      </ul>
      ${
        this.#isRemoving
          ? html`
          <svc-dialog heading="${t('Remove from this project?')}" .content="${this.#question()}"
            @dialogclose="${() => this.#askRemove(false)}"></svc-dialog>`
          : null
      }`
  }

  #together(ids: readonly string[]): Template {
    const query = new URLSearchParams(ids.map(id => ['source', id]))
    return html`
      <a class="button" href="logs?${query}">${t('Side by side')}</a>
      <a class="button" href="logs?${query}&merged=1">${t('Merged by time')}</a>`
  }

  #row(source: LogSource, index: number): Template {
    const { id, label, filePath, kind, projectId } = source
    const isChosen = this.#selection.ids.has(id)
    const { isBusy } = this.#submission
    const button = (picture: 'up' | 'down' | 'edit', words: string, { work, isOff = false }: Tool): Template => html`
      <button type="button" class="${picture === 'edit' ? 'quiet' : 'quiet order'}" title="${words}" disabled="${isOff}"
        @click="${work}">${icon(picture)}<span class="unseen">${words}: ${label}</span></button>`
    return html`
      <div class="${isChosen ? 'row chosen' : 'row'}">
        <input type="checkbox" aria-label="${t('Choose {name}', { name: label })}" .checked="${isChosen}"
          @click="${(event: Event) => this.#choose(id, (event as MouseEvent).shiftKey)}">
        <a href="projects/${projectId}/logs/${id}" translate="no">
          <b class="cut">${label}</b><code class="cut" title="${filePath}"><bdi>${filePath}</bdi></code>
        </a>
        <span class="kind">${t(kindWords[kind].words)}</span>
        ${this.#standing(source)}
        <div class="tools">
          ${
            !may('change_logs')
              ? null
              : html`
          ${button('up', t('Move up'), { work: () => void this.#move(index, -1), isOff: isBusy || index === 0 })}
          ${button('down', t('Move down'), { work: () => void this.#move(index, 1), isOff: isBusy || index === this.sources.length - 1 })}
          ${button('edit', t('Change'), { work: () => this.#change(id) })}`
          }
        </div>
      </div>`
  }

  #standing({ id }: LogSource): Template {
    const standing = this.#standings.get(id)
    if (standing === undefined) return html`<span class="standing"></span>`
    if ('size' in standing) return html`<span class="standing number">${formatBytes(standing.size)}</span>`
    const words = standing.isMissing ? t('Missing') : t('Not readable')
    return html`<span class="standing missing" title="${standing.problem}">${words}</span>`
  }

  #form(source: LogSource): Template {
    return html`
      <form class="change" @submit="${(event: Event) => void this.#save(event, source)}"
        @keydown="${(event: Event) => (event as KeyboardEvent).key === 'Escape' && this.#change(null)}">
        ${field({
          form: 'source',
          name: 'label',
          label: t('Name'),
          value: source.label,
          isRequired: true,
          hasFocus: true,
          error: this.#submission.problemOf('label')
        })}
        <div class="field">
          <label for="source-kind">${t('Kind')}</label>
          <select id="source-kind" name="kind">
            ${kinds.map(
              kind => html`
              <option value="${kind}" .selected="${kind === source.kind}">${t(kindWords[kind].words)}</option>`
            )}
          </select>
        </div>
        ${errorLine(this.#submission.problemBeside(['label']))}
        <div class="actions end">
          <button type="button" @click="${() => this.#change(null)}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Save')}</button>
        </div>
      </form>`
  }

  #question(): Template {
    const chosen = this.sources.filter(({ id }) => this.#selection.ids.has(id))
    return question({
      asked: html`
        <p>${t('They are removed from this list. The files themselves are not changed.')}</p>
        <ul class="anywhere">${chosen.slice(0, 8).map(({ label }) => html`<li translate="no"><b>${label}</b></li>`)}
          ${chosen.length > 8 ? html`<li class="muted">${t('and {count} more', { count: chosen.length - 8 })}</li>` : null}</ul>`,
      submission: this.#submission,
      answer: t('Remove'),
      onAnswer: event => void this.#remove(event),
      onRefusal: () => this.#askRemove(false)
    })
  }

  /** Loads the sizes, a few at a time. A failure is shown in the row of its file. */
  async #look(): Promise<void> {
    const waiting = [...this.sources]
    const work = async (): Promise<void> => {
      for (let source = waiting.shift(); source !== undefined && !this.signal.aborted; source = waiting.shift()) {
        try {
          const given = { sourceId: source.id, signal: this.signal }
          const { size } = await this.client.call('GET /api/log-sources/:sourceId/meta', given)
          this.#standings.set(source.id, { size })
        } catch (error) {
          if (!(error instanceof Refused)) return
          this.#standings.set(source.id, { problem: errorWords(error), isMissing: error.code === 'file_missing' })
        }
        this.update()
      }
    }
    await Promise.all([work(), work(), work(), work()])
  }

  #choose(id: string, isRange: boolean): void {
    if (isRange)
      this.#selection.extend(
        id,
        this.sources.map(source => source.id)
      )
    else this.#selection.toggle(id)
    this.update()
  }

  #chooseAll(): void {
    const isAll = this.#selection.ids.size === this.sources.length
    this.#selection.set(isAll ? [] : this.sources.map(({ id }) => id))
    this.update()
  }

  #change(id: string | null): void {
    this.#changing = id
    this.#submission.refuse(null)
  }

  #askRemove(isAsking: boolean): void {
    this.#isRemoving = isAsking
    this.#submission.refuse(null)
  }

  async #save(event: Event, { id }: LogSource): Promise<void> {
    const { label = '', kind } = submitted(event)
    await this.#do(async () => {
      await this.client.call('PATCH /api/log-sources/:sourceId', {
        sourceId: id,
        body: { label: label.trim(), kind: kind as LogKind }
      })
      this.#changing = null
    })
  }

  /** Moves a source. Sort numbers can be equal or have gaps, so all that differ from the new order are written. */
  async #move(index: number, by: number): Promise<void> {
    const order = [...this.sources]
    const [moved] = order.splice(index, 1)
    if (moved === undefined) return
    order.splice(index + by, 0, moved)
    await this.#do(async () => {
      for (const [sortOrder, source] of order.entries()) {
        if (source.sortOrder !== sortOrder)
          await this.client.call('PATCH /api/log-sources/:sourceId', { sourceId: source.id, body: { sortOrder } })
      }
    })
    const { problem } = this.#submission
    if (problem !== null) this.dispatchEvent(notice(problem, 'failed'))
  }

  async #remove(event: Event): Promise<void> {
    event.preventDefault()
    await this.#do(async () => {
      const ids = [...this.#selection.ids]
      // The server accepts 200 at a time.
      for (let at = 0; at < ids.length; at += 200) {
        const { failed } = await this.client.call('POST /api/log-sources/bulk', {
          body: { ids: ids.slice(at, at + 200), action: 'delete' }
        })
        const [first] = failed
        if (first !== undefined) throw new Error(first.error)
      }
      this.#isRemoving = false
      this.dispatchEvent(notice(t('{files} removed from this project', { files: countWords(ids.length, 'log file') })))
    })
  }

  async #do(work: () => Promise<void>): Promise<void> {
    await this.#submission.run(work)
    this.dispatchEvent(said('sourceschange'))
  }
}
