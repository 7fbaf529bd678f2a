import type { PlaceEntry, PlaceHome } from '../../../lib/model/project.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { stepsOf } from './places.js'

/**
 * Returns the path to a directory as steps that can be opened. If the machine has several roots, they can be chosen.
 */
export function placeSteps(path: string, { sep, roots }: PlaceHome, onOpen: (path: string) => void): Template {
  const steps = stepsOf(path, sep)
  const choose = (event: Event): void => onOpen((event.currentTarget as HTMLSelectElement).value)
  return html`
    <ol class="steps" translate="no" aria-label="${t('Breadcrumb')}">
      ${steps.map(
        (step, index) => html`
        <li>
          ${index > 1 || (index === 1 && sep === '\\') ? icon('next') : null}
          ${
            index === 0 && roots.length > 1
              ? html`
              <select aria-label="${t('Drive')}" @change="${choose}">
                ${roots.map(root => html`<option value="${root}" .selected="${root === step.path}">${root}</option>`)}
              </select>`
              : html`
              <button type="button" class="quiet cut" aria-current="${index === steps.length - 1 ? 'location' : null}"
                title="${step.path}" @click="${() => onOpen(step.path)}">${step.name}</button>`
          }
        </li>`
      )}
    </ol>`
}

/** Returns a row of a directory listing: a directory to open, or a file to choose. */
export function placeEntry(
  { name, path, isDir }: PlaceEntry,
  { isChosen, onOpen, onChoose }: { isChosen: boolean; onOpen: () => void; onChoose: (isChosen: boolean) => void }
): Template {
  const choose = (event: Event): void => onChoose((event.currentTarget as HTMLInputElement).checked)
  return keyed(
    path,
    html`
    <li>
      ${
        isDir
          ? html`
          <button type="button" title="${name}" @click="${onOpen}">
            ${icon('folder')}<span class="cut">${name}</span><span class="unseen">${t('Open')}</span>${icon('next')}
          </button>`
          : html`
          <label title="${name}">
            <input type="checkbox" .checked="${isChosen}" @change="${choose}">
            ${icon('file')}<span class="cut">${name}</span>
          </label>`
      }
    </li>`
  )
}
