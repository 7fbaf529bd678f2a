import type { ShownProject as Project } from '../../../lib/model/project.js'
import { html, icon, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { labelList, type LabelTable } from '../base/label-list.js'
import { may } from '../../state/rights.js'

/** The state of a row of the list. */
export interface ProjectRowState {
  labels: LabelTable
  isChosen: boolean
  /** The controls of this row can be reached with Tab. */
  isCurrent: boolean
  onChoose: (event: MouseEvent) => void
  onPin: () => void
}

/** Maximum number of labels shown; the others are counted. */
const shownLabels = 2

/** Returns a row of the list of projects. The list contains its styles. */
export function projectRow(
  project: Project,
  { labels, isChosen, isCurrent, onChoose, onPin }: ProjectRowState
): Template {
  const stop = isCurrent ? null : '-1'
  const under = [project.env, project.description].filter(Boolean).join(' · ')
  return html`
    <div class="${isChosen ? 'row chosen' : 'row'}">
      ${
        may('change_projects')
          ? html`
          <input type="checkbox" tabindex="${stop}" aria-label="${t('Choose {name}', { name: project.name })}"
            .checked="${isChosen}" @click="${(event: Event) => onChoose(event as MouseEvent)}">`
          : null
      }
      <a href="projects/${project.id}" translate="no" tabindex="${stop}">
        <b class="cut" title="${project.name}">${project.name}</b>
        <span class="cut" title="${under}">${under}</span>
      </a>
      <span class="labels">${labelList(project, labels, shownLabels)}</span>
      <code class="cut" title="${project.deployPath}"><bdi>${project.deployPath}</bdi></code>
      <svc-status state="${project.status}"></svc-status>
      ${project.lastDeployAt === null ? html`<span></span>` : html`<svc-time at="${project.lastDeployAt}"></svc-time>`}
      ${
        may('change_projects')
          ? html`
          <button type="button" class="quiet pin" tabindex="${stop}" aria-pressed="${project.pinned ? 'true' : 'false'}"
            aria-label="${t('Pin {name}', { name: project.name })}"
            title="${project.pinned ? t('Pinned to the top') : t('Pin to the top')}"
            @click="${onPin}">${icon('pin')}</button>`
          : null
      }
    </div>`
}
