import type { Client } from '../../server/client.js'
import { createLabel, labelPaths, updateLabel } from '../../server/requests.js'
import type { Label, LabelColor, LabelKind } from '../../../lib/model/project.js'
import { notice, css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource, staleLine } from '../../state/resource.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { type Loaded, saveMerged, type SvcConflict } from '../base/saving.js'
import { countWords, t, errorWords } from '../../words/t.js'
import { labelColorRows } from '../base/facts.js'

/* The order of labels by their sort numbers. Pure. */

/** Returns the items with the one at `from` moved to `to`. A position outside of the list becomes its nearest end. */
export function moved<T>(items: readonly T[], from: number, to: number): T[] {
  const rest = [...items]
  const [item] = rest.splice(from, 1)
  if (item === undefined) return [...items]
  rest.splice(Math.max(0, Math.min(to, rest.length)), 0, item)
  return rest
}

/**
 * Returns the labels that need another number for this order. Numbers begin at 1, so that a new label (0) comes first.
 */
export function orderChanges(labels: readonly Label[]): Array<{ id: string; sortOrder: number }> {
  return labels
    .map(({ id, sortOrder }, index) => ({ id, isRight: sortOrder === index + 1, sortOrder: index + 1 }))
    .filter(({ isRight }) => !isRight)
    .map(({ id, sortOrder }) => ({ id, sortOrder }))
}

type Dialog = { kind: 'none' } | { kind: 'create' } | { kind: 'edit' | 'delete'; label: Label }

interface Texts {
  heading: string
  create: string
  edit: string
  empty: string
  /** What happens to the projects of a deleted label. */
  meaning: string
}

/** English; passed to t(). */
const textsOf: Record<LabelKind, Record<keyof Texts, { words: string }>> = {
  category: {
    heading: { words: 'Categories' },
    create: { words: 'New category' },
    edit: { words: 'Change category' },
    empty: { words: 'No categories yet. A project has at most one, for example “Customers” or “Internal”.' },
    meaning: { words: 'Its projects will have no category. Nothing else changes.' }
  },
  tag: {
    heading: { words: 'Tags' },
    create: { words: 'New tag' },
    edit: { words: 'Change tag' },
    empty: { words: 'No tags yet. A project can have several, for example “php”, “nightly” or “needs care”.' },
    meaning: { words: 'It is removed from its projects. Nothing else changes.' }
  }
}

/**
 * Categories or tags: order, colours and names. Attribute: `kind`. Property: `client`. Event: `notice`. They are moved
 * by dragging, or by the up and down buttons.
 */
export class SvcLabels extends SvcElement {
  static override sheet = css`
    svc-labels {
      display: grid;
      gap: 12px;
      align-content: start;
      min-width: 0;

      li { display: flex; flex-wrap: wrap; align-items: center; gap: 4px; min-height: calc(var(--row) + 4px); padding: 4px 8px 4px 16px; }
      li + li { border-top: 1px solid var(--line); }
      li[draggable=true] { cursor: grab; }
      li.dragged { opacity: 0.45; }
      li.target { box-shadow: inset 0 2px 0 var(--accent); }
      .label { flex: 1; min-width: 0; display: flex; }
      @media (max-width: 480px) { .label { flex-basis: 100%; } }
      .count { flex: none; color: var(--muted); font-size: var(--size-13); margin-right: auto; }
      li button { min-width: 36px; padding: 4px; }
      .up .icon { rotate: 180deg; }
      .colors { display: flex; flex-wrap: wrap; gap: 8px; border: 0; margin: 0; padding: 0; }
      .colors legend { padding: 0 0 6px; font-weight: 500; }
      .colors label { display: inline-flex; padding: 4px; border: 2px solid transparent; border-radius: var(--radius); cursor: pointer; }
      .colors label:has(:checked) { border-color: var(--accent); }
      .colors label:has(:focus-visible) { outline: 2px solid var(--accent); outline-offset: 2px; }
    }
  `

  client!: Client
  #labels!: Resource<Label[]>
  #dialog: Dialog = { kind: 'none' }
  #color: LabelColor | null = null
  readonly #submission = new Submission(this)
  #dragged: number | null = null
  #target: number | null = null
  #said = ''

  get kind(): LabelKind {
    return this.getAttribute('kind') === 'tag' ? 'tag' : 'category'
  }

  #text(name: keyof Texts): string {
    return t(textsOf[this.kind][name].words)
  }

  protected override connected(): void {
    this.#labels = createResource({
      load: signal => this.client.call(`GET ${labelPaths[this.kind]}`, { signal }),
      onChange: () => this.update(),
      signal: this.signal
    })
    void this.#labels.load()
  }

  protected override view(): Template {
    return html`
      <div class="section-head">
        <h2>${this.#text('heading')}</h2>
        <button type="button" @click="${() => this.#open({ kind: 'create' })}">${icon('plus')}${this.#text('create')}</button>
      </div>
      ${staleLine(this.#labels)}
      <div class="card">${loaded(this.#labels, 'the labels', labels => this.#list(labels))}</div>
      <p class="unseen" role="status">${this.#said}</p>
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#open({ kind: 'none' })}"></svc-dialog>
      <svc-conflict></svc-conflict>`
  }

  #list(labels: Label[]): Template {
    if (labels.length === 0) return html`<div class="state"><p class="muted">${this.#text('empty')}</p></div>`
    return html`<ul>${labels.map((label, index) => keyed(label.id, this.#row(label, index, labels)))}</ul>`
  }

  #row(label: Label, index: number, labels: Label[]): Template {
    const { id, name, color, projectCount } = label
    const query = this.kind === 'category' ? `category=${encodeURIComponent(id)}` : `tags=${encodeURIComponent(id)}`
    const count = countWords(projectCount, 'project')
    return html`
      <li draggable="true" class="${[index === this.#dragged && 'dragged', index === this.#target && 'target'].filter(Boolean).join(' ')}"
        @dragstart="${(event: Event) => this.#lift(event as DragEvent, index)}"
        @dragover="${(event: Event) => this.#over(event, index)}"
        @drop="${(event: Event) => this.#drop(event, labels, index)}"
        @dragend="${() => this.#lay()}">
        <span class="label"><svc-label name="${name}" color="${color}" kind="${this.kind}"></svc-label></span>
        ${
          projectCount === 0
            ? html`<span class="count number">${count}</span>`
            : html`<a class="count number" href="${`projects?${query}`}">${count}</a>`
        }
        <button type="button" class="quiet up" aria-label="${t('Move {name} up', { name })}" disabled="${index === 0}"
          @click="${() => void this.#move(labels, index, index - 1)}">${icon('down')}</button>
        <button type="button" class="quiet" aria-label="${t('Move {name} down', { name })}" disabled="${index === labels.length - 1}"
          @click="${() => void this.#move(labels, index, index + 1)}">${icon('down')}</button>
        <button type="button" class="quiet" aria-label="${t('Change {name}', { name })}"
          @click="${() => this.#open({ kind: 'edit', label })}">${icon('edit')}</button>
        <button type="button" class="quiet" aria-label="${t('Delete {name}', { name })}"
          @click="${() => this.#open({ kind: 'delete', label })}">${icon('delete')}</button>
      </li>`
  }

  #heading(): string {
    const dialog = this.#dialog
    if (dialog.kind === 'create') return this.#text('create')
    if (dialog.kind === 'edit') return this.#text('edit')
    return dialog.kind === 'delete' ? t('Delete {name}?', { name: dialog.label.name }) : ''
  }

  #content(): Template | null {
    const dialog = this.#dialog
    if (dialog.kind === 'none') return null
    if (dialog.kind === 'delete') return this.#deletion(dialog.label)
    const before = dialog.kind === 'edit' ? dialog.label : undefined
    return html`
      <form class="form" @submit="${(event: Event) => void this.#save(event, before)}">
        ${field({
          form: this.kind,
          name: 'name',
          label: t('Name'),
          isRequired: true,
          hasFocus: true,
          error: this.#submission.problemOf('name'),
          ...(before === undefined ? {} : { value: before.name })
        })}
        <fieldset class="colors">
          <legend>${t('Colour')}</legend>
          ${labelColorRows.map(
            ({ color, words }) => html`
            <label>
              <input type="radio" class="unseen" name="color" value="${color}" .checked="${color === this.#color}" @change="${() => this.#choose(color)}">
              <svc-label name="${t(words)}" color="${color}" kind="${this.kind}"></svc-label>
            </label>`
          )}
        </fieldset>
        ${errorLine(this.#submission.problemBeside(['name']))}
        <div class="actions end">
          <button type="button" @click="${() => this.#open({ kind: 'none' })}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${before === undefined ? t('Create') : t('Save')}</button>
        </div>
      </form>`
  }

  #deletion(label: Label): Template {
    const count = countWords(label.projectCount, 'project')
    return question({
      asked: html`
        <p>${t(label.projectCount === 1 ? '{count} has it.' : '{count} have it.', { count })} ${this.#text('meaning')}</p>`,
      submission: this.#submission,
      answer: t('Delete'),
      onAnswer: event => void this.#delete(event, label),
      onRefusal: () => this.#open({ kind: 'none' })
    })
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
    const colors = (this.#labels.value ?? []).map(({ color }) => color)
    const unused = labelColorRows.find(({ color }) => !colors.includes(color))?.color ?? 'blue'
    this.#color = dialog.kind === 'edit' ? dialog.label.color : unused
    this.update()
  }

  #choose(color: LabelColor): void {
    this.#color = color
    this.update()
  }

  async #save(event: Event, before: Label | undefined): Promise<void> {
    const name = submitted(event)['name']?.trim() ?? ''
    const color = this.#color ?? 'blue'
    await this.#busy(async () => {
      // After the labels that have a number. If none has one, they are sorted by name.
      const last = Math.max(0, ...(this.#labels.value ?? []).map(({ sortOrder }) => sortOrder))
      if (before !== undefined) return this.#change(before, { name, color })
      return createLabel(this.client, this.kind, { name, color, ...(last === 0 ? {} : { sortOrder: last + 1 }) })
    })
  }

  async #delete(event: Event, label: Label): Promise<void> {
    event.preventDefault()
    await this.#busy(async () => {
      await this.client.call(`DELETE ${labelPaths[this.kind]}/:id`, { id: label.id })
      this.dispatchEvent(notice(t('{name} deleted', { name: label.name })))
    })
  }

  /** Returns false if the reader went back to the form. */
  async #change(before: Label, mine: { name: string; color: LabelColor }): Promise<boolean> {
    const loaded = (label: Label): Loaded<Label> => ({
      values: { name: label.name, color: label.color },
      tag: label.updatedAt,
      state: label
    })
    const shown = (name: string, value: unknown): string =>
      name === 'color' ? t(labelColorRows.find(({ color }) => color === value)?.words ?? '') : String(value)
    const saved = await saveMerged({
      base: loaded(before),
      mine,
      send: (fields, tag) => updateLabel(this.client, { kind: this.kind, id: before.id }, { fields, tag }),
      keep: theirs => theirs,
      load: async () => {
        const label = (await this.client.call(`GET ${labelPaths[this.kind]}`)).find(({ id }) => id === before.id)
        if (label === undefined) throw new Error(t('It has been deleted in the meantime.'))
        return loaded(label)
      },
      choose: conflicts =>
        (this.querySelector('svc-conflict') as SvcConflict).ask(
          conflicts.map(({ name, mine, theirs }) => ({
            name,
            label: name === 'color' ? t('Colour') : t('Name'),
            mine: shown(name, mine),
            theirs: shown(name, theirs)
          }))
        )
    })
    return saved !== null
  }

  /** Runs the work, then closes the dialog and reloads the list. If the work returns false, the dialog stays open. */
  async #busy(work: () => Promise<unknown>): Promise<void> {
    await this.#submission.run(async () => {
      if ((await work()) === false) return
      this.#dialog = { kind: 'none' }
      await this.#labels.load()
    })
  }

  async #move(labels: Label[], from: number, to: number): Promise<void> {
    const order = moved(labels, from, to)
    const changes = orderChanges(order)
    this.#labels.set(order.map((label, index) => ({ ...label, sortOrder: index + 1 })))
    const name = labels[from]?.name ?? ''
    this.#said = t('{name} moved to position {place} of {count}', { name, place: to + 1, count: order.length })
    try {
      for (const { id, sortOrder } of changes) {
        const { updatedAt } = await updateLabel(
          this.client,
          { kind: this.kind, id },
          { fields: { sortOrder }, tag: null }
        )
        this.#labels.set((this.#labels.value ?? []).map(label => (label.id === id ? { ...label, updatedAt } : label)))
      }
    } catch (error) {
      this.dispatchEvent(notice(errorWords(error), 'failed'))
      await this.#labels.load()
    }
  }

  #lift(event: DragEvent, index: number): void {
    this.#dragged = index
    if (event.dataTransfer !== null) event.dataTransfer.effectAllowed = 'move'
    event.dataTransfer?.setData('text/plain', '')
    this.update()
  }

  #over(event: Event, index: number): void {
    if (this.#dragged === null) return
    event.preventDefault()
    if (this.#target === index) return
    this.#target = index
    this.update()
  }

  #drop(event: Event, labels: Label[], index: number): void {
    event.preventDefault()
    const from = this.#dragged
    this.#lay()
    if (from !== null && from !== index) void this.#move(labels, from, index)
  }

  #lay(): void {
    this.#dragged = null
    this.#target = null
    this.update()
  }
}
