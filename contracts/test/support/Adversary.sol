// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {AuthorizingToken} from "./AuthorizingToken.sol";
import {Sequences} from "./Sequences.sol";
import {PausableToken, RebasingToken} from "./Tokens.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice Two escrows that share Permit2 and tokens of every kind, which all take authorizations (ERC-3009), honest parties that pay through them, and a judge. After each
/// call the judge compares all records with those before it, and knows who said what; it does not know what was called.
abstract contract Adversary is Sequences {
    uint256 internal constant SLOTS = 3;
    /// The tokens by their place.
    uint256 internal constant PLAIN = 0;
    uint256 internal constant TAKES_FEES = 1;
    uint256 internal constant SAYS_FALSE = 2;
    uint256 internal constant SAYS_NOTHING = 3;
    uint256 internal constant PAUSES = 4;
    uint256 internal constant DENIES = 5;
    uint256 internal constant CALLS_BACK = 6;
    uint256 internal constant REBASES = 7;
    uint256 internal constant TOKENS = 8;

    /// One payment's place at an escrow; another payment follows one that is over.
    struct Slot {
        bytes32 id;
        uint256 asset;
        bool bySet;
        GatewayEscrow.Record last;
    }

    GatewayEscrow[2] internal escrows;
    address[TOKENS] internal tokens;
    Slot[SLOTS][2] internal slots;
    Verifiers internal set = verifiers(2, 3);
    /// What somebody said by a signature: a hash of what, escrow and commitment.
    mapping(bytes32 => bool) internal said;
    /// The terms of each commitment that a payment may come to.
    mapping(bytes32 commitment => GatewayEscrow.Escrow) internal termsBy;
    /// What came to and went from a party in a token by payments alone, as it should be.
    mapping(address party => mapping(uint256 asset => int256)) internal due;
    uint256 internal drawn;
    /// Where something of a token was sent that is a party's still: the payer's at deposit addresses, the merchant's at those of offers.
    mapping(address owner => mapping(uint256 asset => address[])) internal sentTo;
    /// Who may deposit at each escrow, as the judge saw it last, and whether the call may change it.
    bytes32[2] private guards;
    bool internal guarding;
    /// What the judge found first.
    string public broken;
    /// How often what happened.
    mapping(string what => uint256) public count;

    function setUp() public virtual override {
        super.setUp();
        escrows = [escrow, new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS)];
        tokens = [
            address(stable),
            address(new AuthorizingToken()),
            address(new AuthorizingToken()),
            address(new AuthorizingToken()),
            address(new PausableToken()),
            address(new AuthorizingToken()),
            address(new AuthorizingToken()),
            address(new RebasingToken())
        ];
        TrickToken(tokens[SAYS_FALSE]).setAnswer(TrickToken.Answer.False);
        TrickToken(tokens[SAYS_NOTHING]).setAnswer(TrickToken.Answer.Nothing);
        for (uint256 i = 0; i < TOKENS; i++) {
            // Of the plain one it has its money already.
            if (i == PLAIN) allow(tokens[i]);
            else enrich(tokens[i]);
            vm.prank(payer);
            TrickToken(tokens[i]).approve(address(escrows[1]), type(uint256).max);
        }
        for (uint256 e = 0; e < 2; e++) {
            guards[e] = guardOf(escrows[e]);
            for (uint256 i = 0; i < SLOTS; i++) {
                slots[e][i].id = newId();
            }
        }
    }

    function newId() internal virtual returns (bytes32) {
        return keccak256(abi.encode("payment", drawn++));
    }

    function parties() internal view returns (address[5] memory) {
        return [payer, settler, nextSettler, attacker, stranger];
    }

    function isOpen(GatewayEscrow.State state) internal pure returns (bool) {
        return state == GatewayEscrow.State.Deposited || state == GatewayEscrow.State.Reserved;
    }

    function say(string memory what, bytes32 commitment_) internal {
        said[keccak256(abi.encode(what, address(escrow), commitment_))] = true;
    }

    function wasSaid(string memory what, GatewayEscrow at, bytes32 commitment_) private view returns (bool) {
        return said[keccak256(abi.encode(what, address(at), commitment_))];
    }

    function breaks(string memory why) private {
        if (bytes(broken).length == 0) broken = why;
    }

    /// Judges all that a call changed.
    modifier judged() {
        _;
        for (uint256 e = 0; e < 2; e++) {
            for (uint256 i = 0; i < SLOTS; i++) {
                judgeRecord(e, slots[e][i]);
            }
            judgeGuard(e);
        }
        guarding = false;
        judgeMoney();
    }

    function judgeRecord(uint256 e, Slot storage slot) private {
        GatewayEscrow.Record memory old = slot.last;
        GatewayEscrow.Record memory now_ = escrows[e].recordOf(slot.id);
        if (keccak256(abi.encode(old)) == keccak256(abi.encode(now_))) return;
        slot.last = now_;
        note(e, slot, termsBy[now_.commitment]);
        GatewayEscrow.Escrow memory terms = termsOf(slot.id);
        if (old.state == GatewayEscrow.State.None) {
            if (!isOpen(now_.state) || !wasSaid("admission", escrows[e], now_.commitment)) {
                breaks("a deposit that nobody admitted");
            }
            due[payer][slot.asset] -= int256(terms.deposited);
            count["deposited"]++;
            return;
        }
        if (now_.state == GatewayEscrow.State.Reserved) {
            judgeReservation(e, old, now_);
            return;
        }
        if (!isOpen(old.state)) breaks("a final record changed");
        if (old.commitment != now_.commitment || commitment(terms) != now_.commitment) {
            breaks("the terms changed at the end");
        }
        if (now_.state == GatewayEscrow.State.Released) {
            if (old.state != GatewayEscrow.State.Reserved) breaks("a release of what was not reserved");
            if (!wasSaid("delivery", escrows[e], old.commitment)) breaks("a release without the verifiers' word");
            if (block.timestamp >= terms.deposit.refundAfter) breaks("a release from refundAfter on");
            due[terms.settler][slot.asset] += int256(terms.sourceAmount);
            due[payer][slot.asset] += int256(terms.deposited - terms.sourceAmount);
            count["released"]++;
            return;
        }
        bool early = block.timestamp < terms.deposit.refundAfter;
        if (early && !wasSaid("non-delivery", escrows[e], old.commitment)) breaks("a refund before its time");
        due[payer][slot.asset] += int256(terms.deposited);
        count[early ? "cancelled" : "refunded"]++;
    }

    /// What the payment is now, whoever brought it about: a call that was refused once may go through when it is sent again.
    function note(uint256 e, Slot storage slot, GatewayEscrow.Escrow memory terms) private {
        GatewayEscrow called = escrow;
        escrow = escrows[e];
        noteTerms(terms);
        escrow = called;
        slot.bySet = terms.deposit.releaser == idOf(set);
        for (uint256 asset = 0; asset < TOKENS; asset++) {
            if (tokens[asset] == terms.token) slot.asset = asset;
        }
    }

    function judgeReservation(uint256 e, GatewayEscrow.Record memory old, GatewayEscrow.Record memory now_) private {
        if (old.state == GatewayEscrow.State.Deposited) {
            if (!wasSaid("award", escrows[e], now_.commitment)) breaks("a reservation without the reserver's word");
            count["reserved"]++;
        } else {
            if (old.state != GatewayEscrow.State.Reserved) breaks("a final record came to life");
            bytes32 both = keccak256(abi.encode(old.commitment, now_.commitment));
            if (!wasSaid("reassignment", escrows[e], both)) breaks("a reassignment without the reserver's word");
            if (!wasSaid("non-delivery", escrows[e], old.commitment)) {
                breaks("a reassignment without the verifiers' word");
            }
            if (block.timestamp <= termsBy[old.commitment].fulfillBy) breaks("a settler lost its reservation in its time");
            if (now_.round != old.round + 1) breaks("a reassignment that was not counted");
            count["reassigned"]++;
        }
        if (termsBy[old.commitment].deposited != termsBy[now_.commitment].deposited) breaks("the deposit changed");
    }

    /// What decides who may deposit: reserver, proposal and retirement.
    function guardOf(GatewayEscrow at) private view returns (bytes32) {
        return keccak256(abi.encode(at.reserver(), at.nextReserver(), at.nextReserverFrom(), at.retired()));
    }

    function judgeGuard(uint256 e) private {
        bytes32 now_ = guardOf(escrows[e]);
        if (now_ == guards[e]) return;
        if (!guarding) breaks("a stranger changed who may deposit");
        guards[e] = now_;
    }

    function judgeMoney() private {
        for (uint256 asset = 0; asset < TOKENS; asset++) {
            address at = tokens[asset];
            for (uint256 e = 0; e < 2; e++) {
                uint256 owed = escrows[e].owedIn(at);
                if (owed != openIn(e, asset) + claimsIn(e, at)) breaks("the books are not what is open and claimed");
                if (asset != REBASES && TrickToken(at).balanceOf(address(escrows[e])) < owed) {
                    breaks("less is here than is owed");
                }
            }
            if (asset == REBASES || asset == TAKES_FEES) continue;
            judgeParties(asset, at);
        }
    }

    /// What everyone has and can claim is what payments brought, to the unit, whatever attackers did meanwhile.
    function judgeParties(uint256 asset, address at) private {
        address[5] memory who = parties();
        for (uint256 i = 0; i < 5; i++) {
            int256 has = int256(TrickToken(at).balanceOf(who[i]));
            for (uint256 e = 0; e < 2; e++) {
                has += int256(escrows[e].claimable(who[i], at));
            }
            has += int256(atAddresses(who[i], asset, at));
            int256 should = (who[i] == payer ? int256(WEALTH) : int256(0)) + due[who[i]][asset];
            if (has < should) breaks("a party has less than its due");
            if (has > should) breaks("a party has more than its due");
        }
    }

    function atAddresses(address owner, uint256 asset, address at) private view returns (uint256 sum) {
        address[] storage places = sentTo[owner][asset];
        for (uint256 i = 0; i < places.length; i++) {
            sum += TrickToken(at).balanceOf(places[i]);
        }
    }

    function openIn(uint256 e, uint256 asset) private view returns (uint256 sum) {
        for (uint256 i = 0; i < SLOTS; i++) {
            Slot storage slot = slots[e][i];
            if (isOpen(slot.last.state) && slot.asset == asset) sum += termsBy[slot.last.commitment].deposited;
        }
    }

    function claimsIn(uint256 e, address at) private view returns (uint256 sum) {
        address[5] memory who = parties();
        for (uint256 i = 0; i < 5; i++) {
            sum += escrows[e].claimable(who[i], at);
        }
    }
}
