/* What a terminal tells whoever stands around it. */

/** Bytes for the program: keys, pasted text, mouse reports, answers. */
export class TerminalInputEvent extends Event {
  readonly bytes: string

  constructor(bytes: string) {
    super('terminalinput', { bubbles: true })
    this.bytes = bytes
  }
}

/** The screen has another size now; also once it has one at all. */
export class TerminalSizeEvent extends Event {
  readonly columns: number
  readonly rows: number

  constructor(columns: number, rows: number) {
    super('terminalsize', { bubbles: true })
    this.columns = columns
    this.rows = rows
  }
}

/** The program has given its window a title; empty: none. */
export class TerminalTitleEvent extends Event {
  readonly terminalTitle: string

  constructor(terminalTitle: string) {
    super('terminaltitle', { bubbles: true })
    this.terminalTitle = terminalTitle
  }
}

/** The program rang the bell. */
export class TerminalBellEvent extends Event {
  constructor() {
    super('terminalbell', { bubbles: true })
  }
}

/** The reader wants the keyboard back (Ctrl-F6): the terminal has even the Tab key. */
export class TerminalLeaveEvent extends Event {
  constructor() {
    super('terminalleave', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    terminalinput: TerminalInputEvent
    terminalsize: TerminalSizeEvent
    terminaltitle: TerminalTitleEvent
    terminalbell: TerminalBellEvent
    terminalleave: TerminalLeaveEvent
  }
}
