import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { PlaceCalls } from '../server/place-calls.js'
import { t } from '../words/t.js'
import { field } from './field.js'
import type { Field } from './field.js'
import type { PlacesChosenEvent } from './svc-places.js'

export interface PathField extends Pick<Field, 'form' | 'value' | 'error' | 'hint' | 'placeholder' | 'onInput'> {
  calls: PlaceCalls
  /** Whether the server's directories are open below it. */
  isChoosing: boolean
  /** Where they open. */
  start: string
  onChoosing: (isChoosing: boolean) => void
  onChosen: (path: string) => void
}

/** Where a project is deployed to: typed, or chosen on the server. Who uses it registers `svc-places`. */
export function pathField({ calls, isChoosing, start, onChoosing, onChosen, ...own }: PathField): Template {
  const chosen = ({ paths: [path] }: PlacesChosenEvent): void => {
    if (path !== undefined) onChosen(path)
    onChoosing(false)
  }
  return html`
    ${field({
      ...own,
      name: 'deployPath', label: t('Directory on the server'), isRequired: true, isMono: true,
      beside: html`
        <button type="button" aria-expanded="${isChoosing ? 'true' : 'false'}"
          @click="${() => onChoosing(!isChoosing)}">${t('Browse…')}</button>`
    })}
    ${isChoosing
      ? html`
        <svc-places include="dirs" .calls="${calls}" .start="${start}"
          @placeschosen="${(event: Event) => chosen(event as PlacesChosenEvent)}"
          @placescancel="${() => onChoosing(false)}"></svc-places>`
      : null}`
}
