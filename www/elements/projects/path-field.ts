import type { Said } from '../events.js'
import { html, type Template } from '../../dom/html.js'
import type { PlaceCalls } from '../../server/place-calls.js'
import { t } from '../../words/t.js'
import { field, type Field } from '../base/field.js'

/** The parameters of `pathField`. */
export interface PathField extends Pick<Field, 'form' | 'value' | 'error' | 'hint' | 'placeholder' | 'onInput'> {
  calls: PlaceCalls
  /** The directories of the server are open below the field. */
  isChoosing: boolean
  /** The directory at which they open. */
  start: string
  onChoosing: (isChoosing: boolean) => void
  onChosen: (path: string) => void
}

/**
 * Returns the field for the target of a project: typed, or chosen on the server. The user must register `svc-places`.
 */
export function pathField({ calls, isChoosing, start, onChoosing, onChosen, ...own }: PathField): Template {
  const chosen = ({ paths: [path] }: Said<'placeschosen'>): void => {
    if (path !== undefined) onChosen(path)
    onChoosing(false)
  }
  return html`
    ${field({
      ...own,
      name: 'deployPath',
      label: t('Directory on the server'),
      isRequired: true,
      isMono: true,
      beside: html`
        <button type="button" aria-expanded="${isChoosing ? 'true' : 'false'}"
          @click="${() => onChoosing(!isChoosing)}">${t('Browse…')}</button>`
    })}
    ${
      isChoosing
        ? html`
        <svc-places include="dirs" .calls="${calls}" .start="${start}"
          @placeschosen="${(event: Event) => chosen(event as Said<'placeschosen'>)}"
          @placescancel="${() => onChoosing(false)}"></svc-places>`
        : null
    }`
}
