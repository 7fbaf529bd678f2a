import type { Client } from '../../server/client.js'
import { notice, said, css, SvcElement } from '../element.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { html, icon, type Template } from '../../dom/html.js'
import { may } from '../../state/session.js'
import { t } from '../../words/t.js'
import { confirmation, field, question, Submission, submitted } from '../base/form.js'
import { labelTexts, readLabels } from './node-filter.js'

const maxName = 100
type Dialog = 'none' | 'drain' | 'edit' | 'forget'

/**
 * What can be done to a node: drain it, change its name and labels, forget it. Properties: `node`, `client`. Events:
 * `nodechange`, `nodeforgotten`, `notice`.
 */
export class SvcNodeActions extends SvcElement {
  static override sheet = css`
    svc-node-actions {
      @media (max-width: 719px) {
        width: 100%;
        > .actions > button { flex: 1; }
      }
    }
  `

  node!: ListedNode
  client!: Client
  #dialog: Dialog = 'none'
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { isDrained, name } = this.node
    const headings: Record<Dialog, string> = {
      none: '',
      drain: t('Drain {name}?', { name }),
      edit: t('Change {name}', { name }),
      forget: t('Forget {name}?', { name })
    }
    return html`
      <div class="actions">
        ${
          !may('drain')
            ? null
            : isDrained
              ? html`<button type="button" class="primary" disabled="${this.#submission.isBusy}" @click="${() => void this.#drain(false)}">${icon('play')}${t('Undrain')}</button>`
              : html`<button type="button" @click="${() => this.#open('drain')}">${icon('pause')}${t('Drain…')}</button>`
        }
        ${may('change_nodes') ? html`<button type="button" @click="${() => this.#open('edit')}">${icon('edit')}${t('Name and labels…')}</button>` : null}
        ${may('change_nodes') ? html`<button type="button" class="danger" @click="${() => this.#open('forget')}">${icon('delete')}${t('Forget…')}</button>` : null}
      </div>
      <svc-dialog heading="${headings[this.#dialog]}" .content="${this.#content()}"
        @dialogclose="${() => this.#open('none')}"></svc-dialog>`
  }

  #content(): Template | null {
    const { name } = this.node
    const ask = (asked: unknown, answer: string, more: { kind?: string; onAnswer: (event: Event) => void }): Template =>
      question({
        asked,
        answer,
        submission: { isBusy: this.#submission.isBusy, problem: this.#submission.problemBeside(['name', 'labels']) },
        onRefusal: () => this.#open('none'),
        ...more
      })
    if (this.#dialog === 'drain') {
      return ask(
        html`<p>${t('Rollouts leave the node out from now on. What runs there goes on, and a deployment that has begun ends.')}</p>`,
        t('Drain'),
        { kind: 'primary', onAnswer: event => this.#answer(event, () => this.#drain(true)) }
      )
    }
    if (this.#dialog === 'edit')
      return ask(this.#fields(), t('Save'), { kind: 'primary', onAnswer: event => void this.#save(event) })
    if (this.#dialog === 'forget') {
      return ask(
        html`
        <p>${t('Its key is no longer accepted, and its placements are removed. The files on the machine stay, and what runs there goes on.')}</p>
        ${confirmation('forget', name)}`,
        t('Forget'),
        { onAnswer: event => void this.#forget(event) }
      )
    }
    return null
  }

  #fields(): Template {
    return html`
      ${field({
        form: 'node',
        name: 'name',
        label: t('Name'),
        value: this.node.name,
        isRequired: true,
        hasFocus: true,
        maxLength: maxName,
        error: this.#submission.problemOf('name')
      })}
      ${field({
        form: 'node',
        name: 'labels',
        label: t('Labels'),
        value: labelTexts(this.node).join('\n'),
        rows: 4,
        isMono: true,
        placeholder: 'zone=eu',
        hint: t('One on each line. Rollouts can be sorted by a label.'),
        error: this.#submission.problemOf('labels')
      })}`
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
  }

  #answer(event: Event, work: () => Promise<void>): void {
    event.preventDefault()
    void work()
  }

  async #drain(isDrained: boolean): Promise<void> {
    const isDone = await this.#submission.run(async () =>
      this.#changed(
        (await this.client.call('PUT /api/nodes/:node/drain', { node: this.node.id, body: { drained: isDrained } }))
          .node
      )
    )
    if (isDone) this.#open('none')
    else if (this.#dialog === 'none') this.dispatchEvent(notice(this.#submission.problem ?? '', 'failed'))
  }

  async #save(event: Event): Promise<void> {
    const { name = '', labels: text = '' } = submitted(event)
    const { labels, wrong } = readLabels(text)
    if (wrong !== null) return this.#submission.refuse(t('“{line}” is not a label. Write name=value.', { line: wrong }))
    const { id } = this.node
    const isDone = await this.#submission.run(async () =>
      this.#changed(
        (await this.client.call('PATCH /api/nodes/:node', { node: id, body: { name: name.trim(), labels } })).node
      )
    )
    if (isDone) this.#open('none')
  }

  async #forget(event: Event): Promise<void> {
    const { confirmation: typed = '' } = submitted(event)
    const { node } = this
    if (typed.trim() !== node.name) return this.#submission.refuse(t('The name does not match.'))
    if (await this.#submission.run(() => this.client.call('DELETE /api/nodes/:node', { node: node.id }))) {
      this.#open('none')
      this.dispatchEvent(said('nodeforgotten', { node }))
    }
  }

  #changed(node: ListedNode): void {
    this.node = node
    this.dispatchEvent(said('nodechange', { node }))
    this.dispatchEvent(notice(t('Saved')))
  }
}
