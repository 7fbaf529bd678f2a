import { said, type Said, css, SvcElement } from '../element.js'
import type { NewLogSource } from '../../server/requests.js'
import { Refused, type Client } from '../../server/client.js'
import { html, icon, type Template } from '../../dom/html.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { SvcPlaces } from '../base/svc-places.js'
import { countWords, t, errorWords } from '../../words/t.js'

/** Returns the paths in a text with one path per line, without surrounding quotes, empty lines and duplicates. Pure. */
export function typedPaths(text: string): string[] {
  const paths = text
    .split(/\r?\n/)
    .map(line => line.trim().replace(/^(["'])(.*)\1$/, '$2'))
    .filter(path => path !== '')
  return [...new Set(paths)]
}

const most = 50

/**
 * Adds log files to a project: chosen by browsing the server, or typed, one per line. Properties: `projectId`; `start`,
 * the directory to browse first; `client`. Events: `sourcesadded`, `sourcescancel`.
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
  client!: Client
  #typed = ''
  #isBrowsing = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const paths = typedPaths(this.#typed)
    const problem = this.#problem(paths)
    return html`
      <form class="form" @submit="${(event: Event) => void this.#add(event)}">
        ${
          this.#isBrowsing
            ? html`
            <svc-places include="files" multiple="" .client="${this.client}" .start="${this.start}"
              @placeschosen="${(event: Event) => this.#chosen((event as Said<'placeschosen'>).paths)}"
              @placescancel="${() => this.#browse(false)}"></svc-places>`
            : html`
            <button type="button" class="browse" @click="${() => this.#browse(true)}">
              ${icon('folder')}${t('Browse server…')}
            </button>`
        }
        ${field({
          form: 'add',
          name: 'paths',
          label: t('Files on the server'),
          rows: 5,
          isMono: true,
          value: this.#typed,
          placeholder: '/var/log/nginx/access.log',
          error: problem ?? undefined,
          hasFocus: true,
          hint: t('Absolute paths, one per line, up to 50. You can add a file before it exists.'),
          onInput: value => this.#type(value)
        })}
        ${errorLine(problem === null ? this.#submission.problem : null)}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('sourcescancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy || paths.length === 0}">
            ${paths.length === 0 ? t('Add') : t('Add {files}', { files: countWords(paths.length, 'file') })}
          </button>
        </div>
      </form>`
  }

  #problem(paths: readonly string[]): string | null {
    if (paths.length > most) {
      return t('Too many paths: {count}. Add at most {most} at a time.', { count: paths.length, most })
    }
    const { refusal } = this.#submission
    const index = refusal instanceof Refused ? /^items\[(\d+)\]/.exec(refusal.field ?? '')?.[1] : undefined
    return index === undefined
      ? null
      : t('Line {line}: {problem}', { line: Number(index) + 1, problem: errorWords(refusal) })
  }

  #type(value: string): void {
    this.#typed = value
    this.#submission.refuse(null)
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
    await this.#submission.run(async () => {
      const added = (
        await this.client.call('POST /api/projects/:id/log-sources', { id: this.projectId, body: { items } })
      ).items
      this.dispatchEvent(said('sourcesadded', { count: added.length }))
    })
  }
}

/** Guesses the kind of a file from its name. Other files are plain text until the reader changes this. */
function kindOf(path: string): Pick<NewLogSource, 'kind'> {
  return /\.(?:jsonl|ndjson|json)$/i.test(path) ? { kind: 'json' } : {}
}

/** The elements that a page registers to add log files. */
export const elements = { 'svc-log-add': SvcLogAdd, 'svc-places': SvcPlaces }
