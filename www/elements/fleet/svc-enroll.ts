import type { Client } from '../../server/client.js'
import { said, css, SvcElement } from '../element.js'
import { html, type Template } from '../../dom/html.js'
import type { IssuedToken } from '../../server/requests.js'
import { t } from '../../words/t.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { exactWords } from '../base/words.js'
import { installView } from '../projects/install-line.js'
import { commandView } from '../projects/project-fields.js'
import { readLabels } from './node-filter.js'

const minuteSeconds = 60
/** The offered times. `words` is English and passed to t(). */
const times: ReadonlyArray<{ seconds: number; words: string }> = [
  { seconds: 15 * minuteSeconds, words: '15 minutes' },
  { seconds: 60 * minuteSeconds, words: '1 hour' },
  { seconds: 24 * 60 * minuteSeconds, words: '1 day' },
  { seconds: 7 * 24 * 60 * minuteSeconds, words: '1 week' }
]
const usualSeconds = 60 * minuteSeconds
const maxName = 100

/**
 * Issues a one-time token for a machine, and shows it once with the commands to run there. Properties: `client`; `server`,
 * the address for commands. Events: `enrolled`, `enrolldone`.
 */
export class SvcEnroll extends SvcElement {
  static override sheet = css`
    svc-enroll {
      ol { display: grid; gap: 16px; padding-left: 20px; list-style: decimal; }
      .command { flex-wrap: wrap; margin-top: 6px; padding: 8px 14px 14px; }
      .command pre { flex-basis: 100%; user-select: all; }
      li .small { margin-top: 6px; overflow-wrap: anywhere; }
      li .warning { display: flex; gap: 8px; margin-top: 6px; }
      li .warning .icon { margin-top: 3px; color: var(--warning); }
    }
  `

  client!: Client
  server = ''
  #sum: string | null = null
  #issued: IssuedToken | null = null
  #hasFocused = false
  readonly #submission = new Submission(this)

  protected override connected(): void {
    this.client.call('GET /api/settings/status', { signal: this.signal }).then(
      ({ archives }) => {
        this.#sum = archives.agent
        this.update()
      },
      () => {}
    )
  }

  protected override view(): Template {
    return this.#issued === null ? this.#form() : this.#token(this.#issued)
  }

  /** The dialog opens before its content has controls. */
  protected override rendered(): void {
    if (this.#hasFocused) return
    this.#hasFocused = true
    this.querySelector<HTMLElement>(this.#issued === null ? '[autofocus]' : '.command')?.focus()
  }

  #form(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#issue(event)}">
        <p class="muted">${t('A one-time token lets one machine join the fleet. The machine only opens connections to this server; it needs no open port.')}</p>
        ${field({
          form: 'enroll',
          name: 'name',
          label: t('Name of the node (optional)'),
          hasFocus: true,
          maxLength: maxName,
          placeholder: 'plant-a1',
          hint: t('If empty, the machine proposes its host name.'),
          error: this.#submission.problemOf('name')
        })}
        ${field({
          form: 'enroll',
          name: 'labels',
          label: t('Labels (optional)'),
          rows: 2,
          isMono: true,
          placeholder: 'zone=eu',
          hint: t('One on each line. Rollouts can be sorted by a label.'),
          error: this.#submission.problemOf('labels')
        })}
        <div class="field">
          <label for="enroll-seconds">${t('The token is valid for')}</label>
          <select id="enroll-seconds" name="seconds">
            ${times.map(({ seconds, words }) => html`<option value="${seconds}" .selected="${seconds === usualSeconds}">${t(words)}</option>`)}
          </select>
        </div>
        ${errorLine(this.#submission.problemBeside(['name', 'labels']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('enrolldone'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Create token')}</button>
        </div>
      </form>`
  }

  #token({ command, enrollment }: IssuedToken): Template {
    return html`
      <div class="form">
        <p>${t('Copy the command now. It contains the token, which is not stored, and nobody can show it again.')}</p>
        <ol>
          <li>
            ${t('Install svc on the machine:')}
            ${installView({ server: this.server, edition: 'agent', sum: this.#sum })}
          </li>
          <li>
            ${t('Run this there, as the user that the deployments belong to:')}
            <div class="command" tabindex="-1">${commandView(command)}<svc-copy .text="${command}"></svc-copy></div>
          </li>
          <li>${t('The node appears in the list as soon as it is connected.')}</li>
        </ol>
        <p class="muted small">${t('The token is valid until {time}, for one machine.', { time: exactWords(enrollment.expiresAt) })}</p>
        <div class="actions end">
          <button type="button" class="primary" @click="${() => this.dispatchEvent(said('enrolldone'))}">${t('Done')}</button>
        </div>
      </div>`
  }

  async #issue(event: Event): Promise<void> {
    const { name = '', labels: text = '', seconds } = submitted(event)
    const { labels, wrong } = readLabels(text)
    if (wrong !== null) return this.#submission.refuse(t('“{line}” is not a label. Write name=value.', { line: wrong }))
    await this.#submission.run(async () => {
      this.#issued = await this.client.call('POST /api/enrollments', {
        body: { name: name.trim() || null, labels, seconds: Number(seconds) }
      })
      this.#hasFocused = false
      this.dispatchEvent(said('enrolled'))
    })
  }
}

export const elements = { 'svc-enroll': SvcEnroll }
