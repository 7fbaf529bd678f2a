import type { LogSource } from '../../lib/model/log-source.js'
import type { LogCalls } from '../server/log-calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { Connection } from '../server/client.js'
import { LogFile } from '../state/log-file.js'
import { MergedLog } from '../state/merged-log.js'
import { t } from '../words/t.js'

/** More than a file that is shown alone: all of what is merged is held until it is given up. */
const limits = { maxLines: 300_000 }

/**
 * Several log files as one, in the order of the times that their lines say. Properties `sources`, `calls`, `connection`,
 * set before it enters the page.
 */
export class SvcMergedLog extends SvcElement {
  static override sheet = css`
    svc-merged-log {
      display: grid;
      grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
      height: 100%;
      min-height: 0;

      .said p { display: flex; gap: 8px; align-items: center; padding: 6px 16px; border-bottom: 1px solid var(--line); font-size: var(--size-13); }
      .said .icon { color: var(--warning); }
      > svc-log { min-height: 0; }
    }
  `

  sources: readonly LogSource[] = []
  calls!: LogCalls
  connection!: Connection
  #files: LogFile[] = []
  #merged: MergedLog | null = null

  protected override connected(): void {
    const { calls, connection, signal } = this
    this.#files = this.sources.map(({ id }) =>
      new LogFile({ id, calls, onConnection: state => connection.set(state), signal, limits }))
    this.#merged = new MergedLog({ parts: this.#files, signal })
    for (const file of this.#files) {
      file.addEventListener('change', () => this.update(), { signal })
      void file.open()
    }
  }

  protected override view(): Template {
    const problems = this.#files.flatMap((file, index) => file.problem === null ? [] : [{ file, source: this.sources[index] }])
    return html`
      <div class="said" role="status">
        ${problems.map(({ file, source }) => html`
          <p>${icon('warning')}<span>${source?.label}: ${file.problem}</span></p>`)}
      </div>
      <svc-log class="tall" wrap="" heading="${t('Merged by time')}" .output="${this.#merged}"
        .sources="${this.#labels}"></svc-log>`
  }

  /** The same object each time, so that the log is not built anew. */
  get #labels(): ReadonlyArray<{ words: string }> {
    return (this.#shownLabels ??= this.sources.map(({ label }) => ({ words: label })))
  }

  #shownLabels: ReadonlyArray<{ words: string }> | undefined
}
