import type { DeploymentRow, DeploymentStep } from '../../../lib/model/deployment.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type IconName, type Template } from '../../dom/html.js'
import { stepWords } from '../base/words.js'
import { t } from '../../words/t.js'

const spokenWords = { running: 'running', success: 'done', failed: 'failed', skipped: 'not run' }

type Steps = Pick<DeploymentRow, 'status' | 'steps'> & Partial<Pick<DeploymentRow, 'scripts'>>

/** The steps of a deployment as a vertical line with their durations. Property: `deployment`. */
export class SvcSteps extends SvcElement {
  static override sheet = css`
    svc-steps {
      display: block;

      li {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) auto;
        align-items: center;
        gap: 0 12px;
        min-height: 36px;
        color: var(--muted);
      }

      /* The line connects the shapes without crossing them. */
      li + li::before {
        content: '';
        position: absolute;
        left: 7.5px;
        top: -8px;
        height: 16px;
        border-left: 1px solid var(--line);
      }

      .words { color: var(--text); }
      li[data-state='skipped'] .words, li[data-state='idle'] .words { color: var(--muted); }
      li[data-state='success'] > .icon { color: var(--success); }
      li[data-state='failed'] > .icon { color: var(--failure); }
      li[data-state='failed'] .words { color: var(--failure); font-weight: 500; }
      li[data-state='running'] > .icon { color: var(--running); }
      li[data-state='running'] .words { font-weight: 500; }
      .time { font-size: var(--size-13); text-align: right; }
      .exit { color: var(--failure); }

      @media (prefers-reduced-motion: no-preference) {
        li[data-state='running'] > .icon { animation: svc-status-turn 1.2s linear infinite; }
      }
    }
  `

  deployment: Steps = { status: 'queued', steps: [] }

  protected override view(): Template {
    const { steps, scripts = [] } = this.deployment
    const isInBackground = scripts.some(({ step, async }) => step === 'postDeploy' && async)
    const shownSteps = stepWords.filter(each => !each.isOptional || steps.some(({ name }) => name === each.name))
    const rows = shownSteps.map(({ name, words }) => {
      const shown = name === 'postDeploy' && isInBackground ? 'Post-deploy script, in the background' : words
      return this.#row(
        t(shown),
        steps.find(step => step.name === name)
      )
    })
    return html`<ol>${rows}</ol>`
  }

  #row(words: string, step: DeploymentStep | undefined): Template {
    const isOver = this.deployment.status === 'success' || this.deployment.status === 'failed'
    const state: IconName = step?.status ?? (isOver ? 'skipped' : 'idle')
    const spoken = step === undefined && !isOver ? t('waiting') : t(spokenWords[step?.status ?? 'skipped'])
    return html`
      <li data-state="${state}">
        ${icon(state)}
        <span class="words">${words}<span class="unseen">, ${spoken}</span></span>
        <span class="time">${this.#detail(step, isOver)}</span>
      </li>`
  }

  #detail(step: DeploymentStep | undefined, isOver: boolean): unknown {
    if (step === undefined) return isOver ? t('not run') : null
    if (step.status === 'skipped') return t('none')
    const hasExit = step.status === 'failed' && step.exitCode !== undefined && step.exitCode !== null
    return html`
      ${hasExit ? html`<span class="exit">${t('exit {code}', { code: Number(step.exitCode) })}</span>${' · '}` : null}
      <svc-span from="${step.startedAt}" to="${step.endedAt}"></svc-span>`
  }
}
