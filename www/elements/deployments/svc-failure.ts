import { said } from '../events.js'
import type { Deployment, DeploymentStep } from '../../../lib/model/deployment.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { LogLine, LogText } from '../../state/log-text.js'
import { plainStyle } from '../logs/ansi.js'
import { plainFormat } from '../logs/log-format.js'
import { lineNode } from '../logs/log-line.js'
import { spanWords, stepWords } from '../base/words.js'
import { serverWords, twoLines } from '../../words/errors.js'
import { t } from '../../words/t.js'

const shownLines = 10

/**
 * Explains why a deployment failed: the step, the exit code of its script, its last output. Properties: `deployment`,
 * `output`. Event: `showline`.
 */
export class SvcFailure extends SvcElement {
  static override sheet = css`
    svc-failure {
      display: grid;
      grid-template-columns: 16px minmax(0, 1fr);
      gap: 10px 12px;
      padding: 14px 16px;
      border-radius: 8px;
      background: var(--failure-quiet);

      > .icon { margin-top: 3px; color: var(--failure); }
      p { min-width: 0; overflow-wrap: anywhere; }
      .last {
        grid-column: 2;
        padding: 8px 12px;
        border-radius: 6px;
        background: var(--log-ground);
        color: var(--log-text);
        font: var(--size-12) / 1.5 var(--mono);
      }
      .line { white-space: pre-wrap; overflow-wrap: anywhere; }
      .line .bold { font-weight: 700; }
      .line .dim { opacity: 0.75; }
      .more { grid-column: 2; justify-self: start; }
    }
  `

  deployment!: Deployment
  #output: LogText | undefined
  #detach = new AbortController()

  get output(): LogText | undefined {
    return this.#output
  }

  set output(output: LogText | undefined) {
    if (output === this.#output) return
    this.#detach.abort()
    this.#detach = new AbortController()
    this.#output = output
    output?.addEventListener('change', () => this.update(), { signal: this.#detach.signal })
    this.update()
  }

  protected override view(): Template {
    const { errorMessage, steps } = this.deployment
    const step = steps.find(({ status }) => status === 'failed')
    const shown = step === undefined ? [] : this.#linesOf(step)
    const last = shown.at(-1)
    return html`
      ${icon('failed')}
      <div role="alert">
        ${errorMessage === null ? html`<p>${t('The deployment failed. See the output for the cause.')}</p>` : html`<p translate="no">${twoLines(serverWords(errorMessage))}</p>`}
        ${step === undefined ? null : html`<p class="muted small">${stepLine(step)}</p>`}
      </div>
      ${
        last === undefined
          ? null
          : html`
          <div class="last" translate="no" role="group" aria-label="${t('Last output')}">
            ${shown.map(({ line }) => lineNode(line, plainStyle, { format: plainFormat, hasTimes: false, pattern: null, sources: [] }))}
          </div>
          <button type="button" class="more" @click="${() => this.dispatchEvent(said('showline', { line: last.number }))}">
            ${t('Show in output')}
          </button>`
      }`
  }

  /** Returns the last lines that were written while the step ran. */
  #linesOf({ startedAt, endedAt }: DeploymentStep): Array<{ line: LogLine; number: number }> {
    const output = this.#output
    if (output === undefined) return []
    const until = endedAt ?? '9999'
    const found: Array<{ line: LogLine; number: number }> = []
    for (let index = output.lines.length - 1; index >= 0 && found.length < shownLines; index--) {
      const line = output.lines[index] as LogLine
      if (line.at < startedAt) break
      if (line.at <= until && line.text.trim() !== '') found.unshift({ line, number: output.firstNumber + index })
    }
    return found
  }
}

function stepLine({ name, exitCode, startedAt, endedAt }: DeploymentStep): string {
  const step = t(stepWords.find(each => each.name === name)?.words ?? name)
  const time = endedAt === null ? '' : spanWords(Date.parse(endedAt) - Date.parse(startedAt))
  return exitCode === undefined || exitCode === null
    ? t('{step}, after {time}', { step, time })
    : t('{step}: exit code {code}, after {time}', { step, code: exitCode, time })
}
