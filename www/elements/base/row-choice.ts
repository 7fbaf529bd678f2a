import { createSelection } from './selection.js'

/** A row that can be chosen. */
interface Row {
  readonly id: string
}

/** The chosen rows of a list. Nothing is chosen without the right to it. */
export interface RowChoice {
  readonly ids: ReadonlySet<string>
  /** Whether the reader may choose rows. */
  readonly isAllowed: boolean
  /** Chooses a row, or no longer. `isRange`: with the rows between it and the last one. */
  choose(id: string, isRange: boolean): void
  /** Chooses exactly these rows. */
  set(rows: readonly Row[]): void
  /** Drops chosen rows that no longer exist. */
  keep(existing: readonly Row[]): void
  /**
   * Reads a key on the shown row `current`. Space chooses, Shift with Up or Down extends the choice in lists whose rows
   * these keys reach, Ctrl-A chooses all shown rows, Escape none.
   */
  pressed(event: KeyboardEvent, current: number): void
}

/** What a choice is made from. */
export interface RowChoiceNeeds {
  /** Returns the shown rows in order. A range and the keys apply to them. */
  shown: () => readonly Row[]
  /** Returns what Ctrl-A chooses. Default: the shown rows. */
  all?: () => readonly Row[]
  isAllowed: () => boolean
  onChange: () => void
}

/** Creates an empty choice. */
export function createRowChoice({ shown, all = shown, isAllowed, onChange }: RowChoiceNeeds): RowChoice {
  const selection = createSelection()
  const choice: RowChoice = {
    get ids() {
      return selection.ids
    },
    get isAllowed() {
      return isAllowed()
    },
    choose(id, isRange) {
      if (!isAllowed()) return
      if (isRange) selection.extend(id, shown().map(keyOf))
      else selection.toggle(id)
      onChange()
    },
    set(rows) {
      if (!isAllowed()) return
      selection.set(rows.map(keyOf))
      onChange()
    },
    keep(existing) {
      const ids = new Set(existing.map(keyOf))
      const kept = [...selection.ids].filter(id => ids.has(id))
      if (kept.length < selection.ids.size) selection.set(kept)
    },
    pressed(event, current) {
      const { key, ctrlKey, metaKey, shiftKey } = event
      const isOnLink = (event.target as HTMLElement).closest('button, input') === null
      const row = shown()[current]
      if (key === 'a' && (ctrlKey || metaKey)) choice.set(all())
      else if (key === 'Escape' && selection.ids.size > 0) choice.set([])
      else if (key === ' ' && isOnLink && row !== undefined) choice.choose(row.id, shiftKey)
      else {
        if (shiftKey && (key === 'ArrowDown' || key === 'ArrowUp')) extend(current, key === 'ArrowDown' ? 1 : -1)
        // The list itself moves the focus.
        return
      }
      event.preventDefault()
    }
  }

  /** Chooses the current row and the row that is reached next. */
  function extend(current: number, step: number): void {
    // The list moves the focus after this, because its own listener was added later.
    if (!isAllowed()) return
    for (const index of [current, current + step]) {
      const row = shown()[index]
      if (row !== undefined && !selection.ids.has(row.id)) selection.toggle(row.id)
    }
    onChange()
  }

  return choice
}

const keyOf = ({ id }: Row): string => id
