import type { LogCalls, NewLogSource } from '../server/log-calls.js'
import type { PlaceCalls } from '../server/place-calls.js'
import { Refused } from '../server/client.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { errorLine, field, submitted } from './field.js'
import { typedPaths } from './typed-paths.js'
import { SvcPlaces } from './svc-places.js'
import type { PlacesChosenEvent } from './svc-places.js'
import { errorWords } from '../words/errors.js'
import { countWords, t } from '../words/t.js'

/** So many log files were added. */
export class SourcesAddedEvent extends Event {
  readonly count: number

  constructor(count: number) {
    super('sourcesadded', { bubbles: true })
    this.count = count
  }
}

/** The reader adds nothing. */
export class SourcesCancelEvent extends Event {
  constructor() {
    super('sourcescancel', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    sourcesadded: SourcesAddedEvent
    sourcescancel: SourcesCancelEvent
  }
}

const most = 50

/**
 * Adds log files to a project: chosen by walking the server's directories, or typed, one a line. Properties `projectId`,
 * `start`: where the walk begins, `calls`, `places`. Events `sourcesadded`, `sourcescancel`.
 */
export class SvcLogAdd extends SvcElement {
  static override sheet = css`
    svc-log-add {
      display: block;

      .browse { justify-self: start; }
      textarea { min-height: 132px; }
    }
  `

  projectId = ''
  start = ''
  calls!: LogCalls
  places!: PlaceCalls
  #typed = ''
  #isBrowsing = false
  #isBusy = false
  #refusal: unknown = null

  protected override view(): Template {
    const paths = typedPaths(this.#typed)
    const problem = this.#problem(paths)
    return html`
      <form class="form" @submit="${(event: Event) => void this.#add(event)}">
        ${this.#isBrowsing
          ? html`
            <svc-places include="files" multiple="" .calls="${this.places}" .start="${this.start}"
              @placeschosen="${(event: Event) => this.#chosen((event as PlacesChosenEvent).paths)}"
              @placescancel="${() => this.#browse(false)}"></svc-places>`
          : html`
            <button type="button" class="browse" @click="${() => this.#browse(true)}">
              ${icon('folder')}${t('Choose on the server…')}
            </button>`}
        ${field({
          form: 'add', name: 'paths', label: t('Files on the server'), rows: 5, isMono: true, value: this.#typed,
          placeholder: '/var/log/nginx/access.log', error: problem ?? undefined, hasFocus: true,
          hint: t('Absolute paths, one a line, up to 50. A file may be added before it exists.'),
          onInput: value => this.#type(value)
        })}
        ${errorLine(this.#refusal === null || problem !== null ? null : errorWords(this.#refusal))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(new SourcesCancelEvent())}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#isBusy || paths.length === 0}">
            ${paths.length === 0 ? t('Add') : t('Add {files}', { files: countWords(paths.length, 'file') })}
          </button>
        </div>
      </form>`
  }

  #problem(paths: readonly string[]): string | null {
    if (paths.length > most) {
      return t('{count} paths are more than {most}: add them in parts.', { count: paths.length, most })
    }
    const field = this.#refusal instanceof Refused ? this.#refusal.field : undefined
    const index = /^items\[(\d+)\]/.exec(field ?? '')?.[1]
    return index === undefined ? null : t('Line {line}: {problem}', { line: Number(index) + 1, problem: errorWords(this.#refusal) })
  }

  #type(value: string): void {
    this.#typed = value
    this.#refusal = null
    this.update()
  }

  #browse(isBrowsing: boolean): void {
    this.#isBrowsing = isBrowsing
    this.update()
  }

  #chosen(paths: readonly string[]): void {
    this.#isBrowsing = false
    this.#type([...new Set([...typedPaths(this.#typed), ...paths])].join('\n'))
  }

  async #add(event: Event): Promise<void> {
    const { paths = '' } = submitted(event)
    const items: NewLogSource[] = typedPaths(paths).map(filePath => ({ filePath, ...kindOf(filePath) }))
    this.#isBusy = true
    this.#refusal = null
    this.update()
    try {
      const added = await this.calls.add(this.projectId, items)
      this.dispatchEvent(new SourcesAddedEvent(added.length))
    } catch (error) {
      this.#refusal = error
    }
    this.#isBusy = false
    this.update()
  }
}

/** What a name says of its contents; anything else is plain until the reader says otherwise. */
function kindOf(path: string): Pick<NewLogSource, 'kind'> {
  return /\.(?:jsonl|ndjson|json)$/i.test(path) ? { kind: 'json' } : {}
}

export const elements = { 'svc-log-add': SvcLogAdd, 'svc-places': SvcPlaces }
