import { notice, said, css, SvcElement } from '../element.js'
import { takingPart } from '../../shared/api.js'
import type { ListedRollout } from '../../../lib/model/rollout.js'
import { html, icon, type Template } from '../../dom/html.js'
import { may } from '../../state/session.js'
import { numberWords, t, errorWords } from '../../words/t.js'
import { question, Submission } from '../base/form.js'
import { spanWords } from '../base/words.js'
import { actionsOf, type RolloutAction } from './marks.js'
import { serverNow, type Client } from '../../server/client.js'

type Asked = 'none' | 'resume' | 'revert_wave' | 'revert_all'

/**
 * The state of a rollout and what can be done to it, at the top of the window whatever is shown below. Halt acts at once:
 * it changes nothing on the nodes, and can be resumed. Properties: `rollout`, `client`; `isReplaced`: a later rollout
 * gives the orders. Events: `rolloutchange`, `notice`.
 */
export class SvcRolloutActions extends SvcElement {
  static override sheet = css`
    svc-rollout-actions {
      position: sticky;
      z-index: 3;
      top: calc(var(--top-kept) + 8px);

      > .bar {
        display: flex;
        flex-wrap: wrap;
        align-items: center;
        justify-content: space-between;
        gap: 8px 24px;
        padding: 10px 12px 10px 16px;
        border-radius: 10px;
        background: var(--raised);
        box-shadow: var(--float);
      }
      .now { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 16px; min-width: 0; }
      .now > span { color: var(--muted); font-size: var(--size-13); }
      .actions { flex: none; max-width: 100%; }
      @media (max-width: 719px) {
        > .bar { padding: 10px 12px; }
        .actions { width: 100%; }
        .actions > button { flex: 1 1 auto; }
      }
    }
  `

  rollout!: ListedRollout
  isReplaced = false
  client!: Client
  #asked: Asked = 'none'
  #sent: RolloutAction | null = null
  readonly #submission = new Submission(this)

  protected override connected(): void {
    // The time until the next wave.
    this.every(1000, () => {
      if (this.rollout.pausedUntil !== null) this.update()
    })
  }

  protected override view(): Template {
    const { rollout } = this
    const actions = this.isReplaced ? [] : actionsOf(rollout)
    const has = (action: RolloutAction): boolean =>
      actions.includes(action) && may(action === 'approve' ? 'approve_rollouts' : 'manage_rollouts')
    const ask = (asked: Asked, words: string, kind: string | null = null): Template =>
      html`<button type="button" class="${kind}" disabled="${this.#submission.isBusy}" @click="${() => this.#ask(asked)}">${words}</button>`
    return html`
      <div class="bar">
        <div class="now" role="status">
          <svc-mark kind="rollout" state="${rollout.state}"></svc-mark>
          <span class="number">${nowWords(rollout)}</span>
        </div>
        <div class="actions">
          ${has('approve') ? html`<button type="button" class="primary" disabled="${this.#submission.isBusy}" @click="${() => void this.#do('approve', () => this.client.call('POST /api/rollouts/:rolloutId/approve', { rolloutId: rollout.id }))}">${icon('play')}${rollout.state === 'pausing' ? t('Begin wave {wave} now', { wave: numberWords(rollout.wave + 1) }) : t('Approve wave {wave}', { wave: numberWords(rollout.wave + 1) })}</button>` : null}
          ${has('resume') ? ask('resume', t('Resume…'), 'primary') : null}
          ${has('revert_wave') ? ask('revert_wave', t('Revert wave {wave}…', { wave: numberWords(rollout.wave) })) : null}
          ${has('revert_all') ? ask('revert_all', t('Revert all…')) : null}
          ${
            has('halt')
              ? html`
              <button type="button" class="danger primary halt" disabled="${this.#sent === 'halt'}"
                @click="${() => void this.#do('halt', () => this.client.call('POST /api/rollouts/:rolloutId/halt', { rolloutId: rollout.id, body: {} }))}">${icon('pause')}${t('Halt')}</button>`
              : null
          }
        </div>
      </div>
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#ask('none')}"></svc-dialog>`
  }

  #heading(): string {
    const { wave, projectName } = this.rollout
    return {
      none: '',
      resume: t('Resume the rollout?'),
      revert_wave: t('Revert wave {wave}?', { wave: numberWords(wave) }),
      revert_all: t('Revert {project} on all nodes?', { project: projectName })
    }[this.#asked]
  }

  #content(): Template | null {
    const { id, wave } = this.rollout
    const ask = (
      words: string,
      answer: string,
      more: { kind?: string; work: () => Promise<{ rollout: ListedRollout }> }
    ): Template =>
      question({
        asked: html`<p>${words}</p>`,
        answer,
        submission: this.#submission,
        ...(more.kind !== undefined && { kind: more.kind }),
        onAnswer: event => {
          event.preventDefault()
          void this.#answer(more.work)
        },
        onRefusal: () => this.#ask('none')
      })
    switch (this.#asked) {
      case 'none':
        return null
      case 'resume':
        return ask(
          t(
            'Nodes that failed or went back try again, and the waves go on. Nodes that do not answer are skipped, and get the release when they are back.'
          ),
          t('Resume'),
          {
            kind: 'primary',
            work: () => this.client.call('POST /api/rollouts/:rolloutId/resume', { rolloutId: id })
          }
        )
      case 'revert_wave':
        return ask(
          t('The nodes of this wave get back exactly the files that they had before. Earlier waves keep the release.'),
          t('Revert wave {wave}', { wave: numberWords(wave) }),
          {
            work: () =>
              this.client.call('POST /api/rollouts/:rolloutId/revert', {
                rolloutId: id,
                body: { wave }
              })
          }
        )
      case 'revert_all':
        return ask(
          t('Every node that has the release gets back exactly the files that it had before.'),
          t('Revert all'),
          {
            work: () =>
              this.client.call('POST /api/rollouts/:rolloutId/revert', {
                rolloutId: id,
                body: {}
              })
          }
        )
    }
  }

  #ask(asked: Asked): void {
    this.#asked = asked
    this.#submission.refuse(null)
  }

  async #answer(work: () => Promise<{ rollout: ListedRollout }>): Promise<void> {
    const isDone = await this.#submission.run(async () =>
      this.dispatchEvent(said('rolloutchange', { rollout: (await work()).rollout }))
    )
    if (isDone) this.#ask('none')
  }

  /** Acts without a question. A refusal becomes a notice. */
  async #do(action: RolloutAction, work: () => Promise<{ rollout: ListedRollout }>): Promise<void> {
    this.#sent = action
    this.update()
    try {
      this.dispatchEvent(said('rolloutchange', { rollout: (await work()).rollout }))
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
    }
    this.#sent = null
    this.update()
  }
}

function nowWords(rollout: ListedRollout): string {
  const { state, wave, waves, pausedUntil } = rollout
  const all = numberWords(waves)
  if (state === 'preparing')
    return t('All {count} nodes fetch and check. Nothing is changed yet.', { count: numberWords(takingPart(rollout)) })
  if (state === 'pausing' && pausedUntil !== null) {
    const leftMs = Math.max(0, Date.parse(pausedUntil) - serverNow())
    const time = spanWords(Math.ceil(leftMs / 1000) * 1000)
    return t('Wave {wave} of {waves} begins in {time}', { wave: numberWords(wave + 1), waves: all, time })
  }
  if (state === 'approval') return t('Wave {wave} of {waves} is next', { wave: numberWords(wave + 1), waves: all })
  if (wave === 0) return t('No node was changed')
  return t('Wave {wave} of {waves}', { wave: numberWords(wave), waves: all })
}
